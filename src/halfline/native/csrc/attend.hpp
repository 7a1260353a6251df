// The first half of a layer, over the rows of a slab: what they ask and keep, and what they attend to.
//
// Every worker of a pass calls these side by side. All rows of a batch are projected before one attends.
#pragma once

#include "weights.hpp"
#include "workspace.hpp"

namespace halfline {

// Reads x; leaves queries in q and writes keys and values where the rows keep theirs. Of a batch of a single row both
// are left to `attend`, if that comes in every layer.
void project_qkv(Workspace& space, const LayerWeights& layer, const Slab& slab, int worker);

// From now on products of this worker that have rows enough ask for a share of the KV that parts of the slab's attention
// read in the layer `next`: unless that has a window, another slab comes before, or there is none (null).
void read_kv_ahead(Workspace& space, const LayerWeights* next, const Slab& slab, int worker);

// Adds what the slab's rows attend to, projected, to x.
void attend(Workspace& space, const LayerWeights& layer, const Slab& slab, int worker);

}  // namespace halfline

// The first half of a layer, over the rows of a slab: what they ask and keep, and what they attend to.
//
// Every worker of a pass calls these side by side. All rows of a batch are projected before one attends.
#pragma once

#include "weights.hpp"
#include "workspace.hpp"

namespace halfline {

// Reads x; leaves queries in q and writes keys and values where the rows keep theirs. Of a batch of a single row both
// are left to `attend`.
void project_qkv(Workspace& space, const LayerWeights& layer, const Slab& slab, int worker);

// From now on products of this worker ask for the KV that it will attend to in this layer, if there is one and no other slab
// comes before.
void read_kv_ahead(Workspace& space, int layer, const Slab& slab, int worker);

// Adds what the slab's rows attend to, projected, to x.
void attend(Workspace& space, const LayerWeights& layer, const Slab& slab, int worker);

}  // namespace halfline

// The second half of a layer: the feed-forward over the rows of a slab, by every worker of a pass side by side.
#pragma once

#include "weights.hpp"
#include "workspace.hpp"

namespace halfline {

// Adds the layer's feed-forward of the slab's rows to x. Returns before the other workers are done: whoever goes on
// meets them first.
void feed_forward(Workspace& space, const LayerWeights& layer, const Slab& slab, int worker);

}  // namespace halfline

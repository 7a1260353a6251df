// Which token has the largest logit, for rows of which nothing else is wanted: without every logit to its last bit.
//
// A logit of a quantised head is a sum of two terms (QuantRows), y = w·x1 + w·x2. The first alone costs half as much and
// nearly tells, for the second is no more than |w| |x2| (Cauchy and Schwarz), or that block by block of 32. So all logits
// get their first term, and of each panel the largest is kept, its peak. Then, row by row, the panel with the highest peak
// is computed as every logit is, and so is every other one whose peak is near enough to hold a larger logit:
//
//     peaks, and how far the second term may reach        panel 0        ├──•──┤
//                                                         panel 1              ├───•──x┤   first: x is its largest logit
//                                                         panel 2   ├─•─┤
//                                                         panel 3                ├──•──┤   may be larger, and is computed
//
// The choice is that of all logits, of equal ones the first. Rows for which too many panels may hold it get both terms of
// all logits, as few rows do at once. Where no bound holds, since weights or activations are not finite, all panels are
// computed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linears.hpp"
#include "weights.hpp"
#include "workspace.hpp"

namespace halfline {

class Chooser {
 public:
  // Looks through the head's weights once. Logits are its products times `logit_scale`.
  void look_at(Team& team, const Linear& head, float logit_scale);

  // By every worker of a pass, for these rows of x; `norm` comes before the head. ids: -1 where a logit is not a number
  // or the largest is not finite.
  void choose(Workspace& space, const NormWeights& norm, std::span<const std::int32_t> rows, std::int32_t* ids,
              int worker) const;

 private:
  // A row of x, and where its token goes.
  struct Asked {
    std::int32_t row;
    std::int32_t* id;
  };
  // How long the terms of a row are; of the second also each block.
  struct Lengths {
    double first = 0.0, second = 0.0;
    std::vector<double> blocks;
  };
  // The largest logit that was looked at.
  struct Best {
    float logit;
    std::int32_t id;   // -1 for none
    bool is_number;    // as all were
  };

  // At most a slab of rows. `exact`: all logits get both terms. Otherwise some may stay undecided.
  void choose_together(Workspace& space, const NormWeights& norm, std::span<const Asked> asked, bool exact,
                       int worker) const;
  void find_peaks(Workspace& space, const Slab& slab, const NormWeights& norm, std::span<const Asked> asked,
                  int worker) const;
  std::int32_t choose_one(Workspace& space, const NormWeights& norm, std::int32_t row, float* peaks, bool exact,
                          int worker) const;
  void look(Workspace& space, const Slab& slab, const Prepared& row, int panel, Best& best, int worker) const;
  Lengths lengths_of(const Prepared& row) const;
  float* peaks_of(const Workspace& space, int row) const;

  Linear head_{};
  float scale_ = 1.0f;
  int blocks_ = 0;                     // of a row
  std::vector<float> reach_;           // the greatest length of a panel's rows: [panels]
  std::vector<float> block_reach_;     // and of their blocks: [panels][blocks]
  double longest_ = 0.0;               // of all rows
  double most_ = 0.0;                  // that is added up for a row and activations of length 1
  double roundings_ = 0.0;             // relative error of such a sum
};

}  // namespace halfline

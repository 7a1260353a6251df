#include "choose.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "unpack.hpp"

namespace halfline {
namespace {

// Of so few rows all logits get both terms: they wait for the weights, and not for products.
constexpr int kExactRows = 5;

// Of how many panels a row may look at one: as many as take the time of its second term of all logits.
constexpr int kPanelsALook = 48;

// The id of a row that wants to look at more.
constexpr std::int32_t kUndecided = -2;

// What a row's logits may reach, scaled or not, without one that is not finite: far below the largest float.
constexpr double kMostLogit = 1e37;

// More than is lost where numbers are smaller than floats can tell.
constexpr double kUnderflow = 1e-40;

// A length as a float that is no less; infinite if it is not a number.
float rounded_up(double squares) {
  return std::isnan(squares) ? INFINITY : std::nextafter(static_cast<float>(std::sqrt(squares)), INFINITY);
}

}  // namespace

void Chooser::look_at(Team& team, const Linear& head, float logit_scale) {
  const PackedMatrix& matrix = head.matrix;
  head_ = head;
  scale_ = logit_scale;
  blocks_ = (matrix.cols + kBlockValues - 1) / kBlockValues;
  const auto blocks = static_cast<std::size_t>(blocks_), panels = static_cast<std::size_t>(matrix.panels);
  reach_.assign(panels, 0.0f);
  block_reach_.assign(panels * blocks, 0.0f);
  std::vector<float> parts(panels, 0.0f);
  team.run([&](int) {
    std::vector<BlockSquares> squares(blocks);
    team.share(matrix.panels, 8, [&](int begin, int end) {
      for (int row = begin * kPanelRows; row < std::min(end * kPanelRows, matrix.rows); ++row) {
        const auto panel = static_cast<std::size_t>(row / kPanelRows);
        std::ranges::fill(squares, BlockSquares{0.0, 0.0});
        add_squares(matrix, row, squares.data());
        BlockSquares all{0.0, 0.0};
        for (std::size_t block = 0; block < blocks; ++block) {
          all.whole += squares[block].whole;
          all.parts += squares[block].parts;
          float& reach = block_reach_[panel * blocks + block];
          reach = std::max(reach, rounded_up(squares[block].whole));
        }
        reach_[panel] = std::max(reach_[panel], rounded_up(all.whole));
        parts[panel] = std::max(parts[panel], rounded_up(all.parts));
      }
    });
  });
  most_ = std::ranges::max(parts);
  longest_ = std::ranges::max(reach_);
  // A block takes at most six operations, which are wrong by half a unit in the last place each.
  roundings_ = matrix.quantised() ? (6.0 * blocks_ + 8.0) * 0x1p-24 : 0.0;
}

void Chooser::choose(Workspace& space, const NormWeights& norm, std::span<const std::int32_t> rows,
                     std::int32_t* ids, int worker) const {
  std::vector<Asked> asked;
  for (const std::int32_t row : rows) asked.push_back({row, ids++});
  for (std::size_t first = 0; first < asked.size(); first += kSlabRows) {
    const auto slab = std::span(asked).subspan(first, std::min<std::size_t>(kSlabRows, asked.size() - first));
    const bool exact = slab.size() <= kExactRows;
    choose_together(space, norm, slab, exact, worker);
    if (exact) continue;
    // All workers find the same: none writes before the meeting in find_peaks.
    std::vector<Asked> rest;
    std::ranges::copy_if(slab, std::back_inserter(rest), [](const Asked& each) { return *each.id == kUndecided; });
    if (!rest.empty()) choose_together(space, norm, rest, true, worker);
  }
}

void Chooser::choose_together(Workspace& space, const NormWeights& norm, std::span<const Asked> asked, bool exact,
                              int worker) const {
  const auto count = static_cast<int>(asked.size());
  Slab slab = space.plan.head_slab(0, count);
  if (!exact) slab.refined = {};
  find_peaks(space, slab, norm, asked, worker);
  space.team.share(count, 1, [&](int number, int) {
    const Asked& each = asked[static_cast<std::size_t>(number)];
    *each.id = choose_one(space, norm, each.row, peaks_of(space, number), exact, worker);
  });
}

// The largest logit of each panel and row, of those terms that the slab has.
void Chooser::find_peaks(Workspace& space, const Slab& slab, const NormWeights& norm, std::span<const Asked> asked,
                         int worker) const {
  const PackedMatrix& head = head_.matrix;
  const Prepared normed = prepared(space, slab, space.normed, space.x_stride, worker);
  prepare(space, slab, normed, head.cols, head.quantised(), worker, [&](int row) {
    space.kernels.norm(space.x_row(asked[static_cast<std::size_t>(row)].row), norm, head.cols, normed.row(row));
  });

  const int size = space.team.size();
  const int room = kInnerFloats / (slab.count * kPanelRows);
  const int together = std::min(panels_together(head.panels, head.panel_bytes, size), room / 2 * 2);
  const int stride = together * kPanelRows;
  float* logits = space.room(worker).inner.as<float>();
  const auto start = [&](int share) { return head.panels * share / size; };
  space.team.share_stretches(worker, together, start, [&](int begin, int end) {
    const Linear part{head.from_panel(begin), nullptr};
    run_panels(space, linear_job(slab, part, normed, logits, stride), 0, end - begin, worker);
    const int count = std::min((end - begin) * kPanelRows, part.matrix.rows);
    for (int row = 0; row < slab.count; ++row) {
      space.kernels.peaks(logits + std::int64_t{row} * stride, count, peaks_of(space, row) + begin);
    }
  });
}

std::int32_t Chooser::choose_one(Workspace& space, const NormWeights& norm, std::int32_t row, float* peaks, bool exact,
                                 int worker) const {
  const PackedMatrix& head = head_.matrix;
  const Slab slab = space.plan.head_slab(0, 1);
  const Prepared normed = prepared(space, slab, space.normed, space.x_stride, worker);
  prepare(space, slab, normed, head.cols, head.quantised(), worker,
          [&](int) { space.kernels.norm(space.x_row(row), norm, head.cols, normed.row(0)); });
  Lengths lengths = lengths_of(normed);
  const double both = lengths.first + lengths.second;
  const double larger_scale = std::max(scale_, 1.0f);
  const bool bounded = scale_ > 0.0f && larger_scale * most_ * both < kMostLogit;
  // Each term is two sums, of products and of minima, and all of it is computed twice.
  double rounding = 4.0 * scale_ * roundings_ * most_ * both + larger_scale * kUnderflow;
  if (exact) {
    lengths.second = rounding = 0.0;
    std::ranges::fill(lengths.blocks, 0.0);
  }

  // The highest peaks of sixteen panels each stand behind all peaks.
  float* heights = peaks + head.panels;
  const int num_heights = (head.panels + kPanelRows - 1) / kPanelRows;
  space.kernels.peaks(peaks, head.panels, heights);
  const auto highest = std::max_element(heights, heights + num_heights) - heights;
  const auto found = std::find(peaks + highest * kPanelRows, peaks + head.panels, heights[highest]) - peaks;
  const int first = std::min(static_cast<int>(found), head.panels - 1);
  Best best{-INFINITY, -1, true};
  look(space, slab, normed, first, best, worker);

  // Whether a logit of panels from this one on may be chosen rather than the best: of equal ones it must come before.
  const auto may_hold = [&](int panel, float peak, double second) {
    const double reached = double{peak * scale_} + scale_ * second + rounding;
    return !bounded || reached > best.logit || (reached == best.logit && panel * kPanelRows < best.id);
  };
  int looks = exact || !bounded ? head.panels : std::max(1, head.panels / kPanelsALook);
  for (int height = 0; height < num_heights; ++height) {
    const int begin = height * kPanelRows, stop = std::min(begin + kPanelRows, head.panels);
    if (!may_hold(begin, heights[height], lengths.second * longest_)) continue;
    for (int panel = begin; panel < stop; ++panel) {
      const auto number = static_cast<std::size_t>(panel);
      if (panel == first || !may_hold(panel, peaks[panel], lengths.second * reach_[number])) continue;
      const float* reach = block_reach_.data() + number * lengths.blocks.size();
      const double second = std::inner_product(lengths.blocks.begin(), lengths.blocks.end(), reach, 0.0);
      if (!may_hold(panel, peaks[panel], second)) continue;
      if (looks-- == 0) return kUndecided;
      look(space, slab, normed, panel, best, worker);
    }
  }
  return best.is_number && std::isfinite(best.logit) ? best.id : -1;
}

void Chooser::look(Workspace& space, const Slab& slab, const Prepared& row, int panel, Best& best, int worker) const {
  alignas(64) float logits[kPanelRows];
  const Linear part{head_.matrix.from_panel(panel), nullptr};
  run_panels(space, linear_job(slab, part, row, logits, kPanelRows), 0, 1, worker);
  for (int i = 0; i < std::min(kPanelRows, part.matrix.rows); ++i) {
    const float logit = logits[i] * scale_;
    const std::int32_t id = panel * kPanelRows + i;
    if (std::isnan(logit)) best.is_number = false;
    if (logit > best.logit || (logit == best.logit && id < best.id)) best = {logit, id, best.is_number};
  }
}

Chooser::Lengths Chooser::lengths_of(const Prepared& row) const {
  Lengths lengths;
  lengths.blocks.assign(static_cast<std::size_t>(blocks_), 0.0);
  double squares[2] = {0.0, 0.0};
  if (!head_.matrix.quantised()) {
    for (int i = 0; i < head_.matrix.cols; ++i) squares[0] += double{row.rows[i]} * row.rows[i];
  } else {
    // Both terms of a lone row lie in one tile.
    for (int at = 0; at < 2 * blocks_; ++at) {
      std::int32_t sum = 0;
      for (int i = 0; i < kBlockValues; ++i) {
        const std::int32_t quant = row.quant.quants[at * kBlockValues + i];
        sum += quant * quant;
      }
      const double square = double{row.quant.scales[at]} * row.quant.scales[at] * sum;
      squares[at % 2] += square;
      if (at % 2 == 1) lengths.blocks[static_cast<std::size_t>(at / 2)] = std::sqrt(square);
    }
  }
  lengths.first = std::sqrt(squares[0]);
  lengths.second = std::sqrt(squares[1]);
  return lengths;
}

float* Chooser::peaks_of(const Workspace& space, int row) const {
  return space.peaks.as<float>() + std::int64_t{row} * num_peaks(head_.matrix.rows);
}

}  // namespace halfline

#include "batch_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace halfline {
namespace {

// Rows at the first places of a sequence are refined in every layer. Everything later looks at them (attention sinks),
// and their outlying values are what int8 hurts most: on real code with the embedded model the mean divergence from
// exact arithmetic was 6.1e-3 nats with none refined, 3.2e-3 with 2, 2.7e-3 with 16. Whether a row is refined depends
// on its place alone, so it is the same in every batch.
constexpr int kRefinedPlaces = 16;

// Rows between two that are wanted are left out of the last layer from so many on: reading its weights once more takes
// as long as some ten rows.
constexpr int kLeastGap = 16;

std::vector<std::int32_t> counted(int count) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

BatchPlan::BatchPlan(const AttentionShape& shape) : attention_shape_(shape), every_(counted(kSlabRows)) {}

void BatchPlan::make(const BatchView& batch) {
  const auto rows = static_cast<std::size_t>(batch.num_rows);
  num_places_ = 0;
  places_.resize(rows);
  for (const SequenceRows& sequence : batch.sequences) {
    const auto first = places_.begin() + sequence.first_row;
    std::iota(first, first + sequence.num_rows, sequence.first_place);
    num_places_ = std::max(num_places_, sequence.first_place + sequence.num_rows);
  }

  wanted_.assign(rows, 0);
  for (const auto& [wanted, count] : {std::pair(batch.logit_rows, batch.num_logit_rows),
                                      std::pair(batch.hidden_rows, batch.num_hidden_rows),
                                      std::pair(batch.choice_rows, batch.num_choice_rows)}) {
    for (int i = 0; i < count; ++i) wanted_[static_cast<std::size_t>(wanted[i])] = 1;
  }

  slabs_.clear();
  last_slabs_.clear();
  attention_.clear();
  num_records_ = 0;
  refined_.clear();
  refined_.reserve(2 * rows);   // slabs point into it; each row is in one, and perhaps in one of the last layer
  for (int first = 0; first < batch.num_rows; first += kSlabRows) {
    add_slab(slabs_, batch, first, std::min(kSlabRows, batch.num_rows - first));
  }
  for (const Slab& slab : slabs_) add_wanted(batch, slab);
}

void BatchPlan::add_slab(std::vector<Slab>& slabs, const BatchView& batch, int first, int count) {
  const std::size_t before = refined_.size();
  for (int row = 0; row < count; ++row) {
    if (place_of(first + row) < kRefinedPlaces) refined_.push_back(row);
  }
  const AttentionPlan& attention = attention_.emplace_back(batch.sequences, first, count, attention_shape_);
  num_records_ = std::max(num_records_, attention.num_records());
  slabs.push_back({first, count, {refined_.data() + before, refined_.size() - before}, &attention});
}

// Runs of the slab's rows from one that is wanted to another.
void BatchPlan::add_wanted(const BatchView& batch, const Slab& slab) {
  const auto begin = wanted_.begin() + slab.first, end = begin + slab.count;
  for (auto first = std::find(begin, end, 1); first != end;) {
    auto stop = first + 1, next = std::find(stop, end, 1);
    for (; next != end && next - stop < kLeastGap; next = std::find(stop, end, 1)) stop = next + 1;
    if (first == begin && stop == end) {
      last_slabs_.push_back(slab);
    } else {
      add_slab(last_slabs_, batch, static_cast<int>(first - wanted_.begin()), static_cast<int>(stop - first));
    }
    first = next;
  }
}

Slab BatchPlan::head_slab(int first, int count) const {
  return {first, count, {every_.data(), static_cast<std::size_t>(count)}, nullptr};
}

}  // namespace halfline

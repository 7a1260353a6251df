// How the rows of one batch go through the layers, decided before the first: in slabs, some rows refined, and who
// attends to what together. The last layer needs all rows' keys and values, and beyond these only rows of which
// something is wanted: one of a prompt, none of most of its chunks.
//
// Knows rows and their places; no values, no weights and no memory of KV.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "attention_plan.hpp"

namespace halfline {

// What is to be run and wanted of it; Batch of model/executor.py.
struct BatchView {
  const std::int32_t* token_ids;
  int num_rows;
  std::vector<SequenceRows> sequences;
  const std::int32_t* logit_rows;
  int num_logit_rows;
  const std::int32_t* hidden_rows;
  int num_hidden_rows;
  const std::int32_t* choice_rows;
  int num_choice_rows;
};

// Rows that go through a layer's matrices together. Bounds the memory of a long batch and keeps its activations in
// the second-level cache.
constexpr int kSlabRows = 512;

struct Slab {
  int first;   // in the batch
  int count;
  std::span<const std::int32_t> refined;   // rows with a second term, in order; counted from the slab's first
  const AttentionPlan* attention;          // null where nothing is attended to

  int num_refined() const { return static_cast<int>(refined.size()); }
  int terms() const { return count + num_refined(); }
};

class BatchPlan {
 public:
  explicit BatchPlan(const AttentionShape& shape);

  // Forgets the batch before. Reads the view now and its sequences until the next.
  void make(const BatchView& batch);

  const std::vector<Slab>& slabs() const { return slabs_; }
  // Of the last layer, once its KV is written; none if nothing is wanted.
  const std::vector<Slab>& last_slabs() const { return last_slabs_; }
  std::int32_t place_of(int row) const { return places_[static_cast<std::size_t>(row)]; }
  int num_rows() const { return static_cast<int>(places_.size()); }
  int num_places() const { return num_places_; }              // up to the last that a row has
  std::int64_t num_records() const { return num_records_; }   // of attention, in the slab with most; times the heads

  // Rows of the head, each of them refined, whatever their places: `first` counts those that logits are wanted of.
  Slab head_slab(int first, int count) const;

 private:
  void add_slab(std::vector<Slab>& slabs, const BatchView& batch, int first, int count);
  void add_wanted(const BatchView& batch, const Slab& slab);

  const AttentionShape attention_shape_;
  const std::vector<std::int32_t> every_;   // 0, 1, 2 ...
  int num_places_ = 0;
  std::int64_t num_records_ = 0;
  std::vector<std::int32_t> places_;      // of each row
  std::vector<std::uint8_t> wanted_;      // of each row, whether it is
  std::vector<std::int32_t> refined_;     // of all slabs
  std::deque<AttentionPlan> attention_;   // as before; slabs point to them
  std::vector<Slab> slabs_, last_slabs_;
};

}  // namespace halfline

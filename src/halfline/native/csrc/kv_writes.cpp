#include "kv_writes.hpp"

#include <algorithm>
#include <cstring>

namespace halfline {

HalfBlock KvWrites::elsewhere(Memory& memory, std::int64_t index, int num_layers) const {
  const std::int64_t head = half_values(arena_.head_dim()), layer = head * arena_.num_kv_heads();
  std::uint16_t* keys = memory.as<std::uint16_t>() + index * layer * num_layers;
  return {keys, keys + kSlots * arena_.head_dim(), num_layers == 1 ? 0 : layer, head};
}

void KvWrites::plan(const std::vector<SequenceRows>& sequences, int num_rows) {
  blocks_.clear();
  filled_.clear();
  kept_.clear();
  block_of_row_.resize(static_cast<std::size_t>(num_rows));
  const std::int64_t layer_stride = arena_.layer_bytes() / 2, head_stride = arena_.head_bytes() / 2;
  for (const SequenceRows& sequence : sequences) {
    const std::int32_t stop = sequence.first_place + sequence.num_rows;
    const std::int32_t first_number = sequence.first_place / kSlots;
    const std::size_t first = blocks_.size();
    for (std::int32_t number = first_number; number * kSlots < stop; ++number) {
      const std::int32_t block = sequence.block_table[number];
      std::uint16_t* keys = arena_.halves_at(block);
      if (arena_.format() == KvFormat::f16) {
        blocks_.push_back({keys, keys + kSlots * arena_.head_dim(), layer_stride, head_stride});
      } else if (stop < (number + 1) * kSlots) {
        blocks_.push_back({keys, arena_.halves_at(sequence.block_table[number + 1]), layer_stride, head_stride});
      } else {
        const Filled filled{blocks_.size(), block,
                            number * kSlots < sequence.first_place ? sequence.block_table[number + 1] : block};
        filled_.push_back(filled);
        if (number * kSlots < sequence.first_place) kept_.push_back(filled);
        blocks_.push_back({});
      }
    }
    for (int row = 0; row < sequence.num_rows; ++row) {
      block_of_row_[static_cast<std::size_t>(sequence.first_row + row)] =
          first + static_cast<std::size_t>((sequence.first_place + row) / kSlots - first_number);
    }
  }
  const auto bytes = static_cast<std::size_t>(2 * half_values(arena_.head_dim()) * arena_.num_kv_heads());
  const auto layers = static_cast<std::size_t>(arena_.num_layers());
  if (scratch_.bytes() < filled_.size() * bytes) scratch_ = Memory(filled_.size() * bytes);
  if (kept_memory_.bytes() < kept_.size() * bytes * layers) kept_memory_ = Memory(kept_.size() * bytes * layers);
  for (std::size_t i = 0; i < filled_.size(); ++i) {
    blocks_[filled_[i].number] = elsewhere(scratch_, static_cast<std::int64_t>(i), 1);
  }
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    blocks_[kept_[i].number] = elsewhere(kept_memory_, static_cast<std::int64_t>(i), arena_.num_layers());
  }
}

void KvWrites::bring(int layer, int unit) const {
  const Filled& kept = kept_[static_cast<std::size_t>(unit / arena_.num_kv_heads())];
  const int head = unit % arena_.num_kv_heads();
  const auto bytes = static_cast<std::size_t>(half_values(arena_.head_dim()));   // of K; V has as many
  const HalfBlock& block = blocks_[kept.number];
  std::memcpy(block.keys(layer, head), arena_.at(layer, kept.block, head), bytes);
  std::memcpy(block.values(layer, head), arena_.at(layer, kept.next, head), bytes);
}

void KvWrites::settle(const Kernels& kernels, int layer, int unit) const {
  const Filled& filled = filled_[static_cast<std::size_t>(unit / arena_.num_kv_heads())];
  const int head = unit % arena_.num_kv_heads();
  const HalfBlock& block = blocks_[filled.number];
  kernels.quantise_kv(block.keys(layer, head), block.values(layer, head), arena_.head_dim(),
                      arena_.at(layer, filled.block, head));
}

void KvWrites::put_back(int layer) const {
  const auto bytes = static_cast<std::size_t>(half_values(arena_.head_dim()));
  for (const Filled& kept : kept_) {
    for (int done = 0; done < layer; ++done) {
      for (int head = 0; head < arena_.num_kv_heads(); ++head) {
        std::memcpy(arena_.at(done, kept.block, head), blocks_[kept.number].keys(done, head), bytes);
        std::memcpy(arena_.at(done, kept.next, head), blocks_[kept.number].values(done, head), bytes);
      }
    }
  }
}

}  // namespace halfline

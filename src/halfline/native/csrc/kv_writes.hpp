// Where the rows of one pass write their KV, and what becomes of it in int8 format.
//
// In f16 format a row writes into the block of its place, and that is all.
//
// In int8 format a block is filled in fp16 and quantised when it is full. A query reads its own block in fp16 and every
// earlier one in int8, however its sequence was cut into steps, so the result is the same for every cutting. A block
// that is not full yet needs the room of two, and has it: its fp16 K lie in its own place of the arena and its V in that
// of the table's next block, which holds nothing before this one is full.
//
//     table      ... [n - 1] [  n  ] [n + 1]          table      ... [n - 1] [  n  ] [n + 1] [n + 2]
//     arena           int8    K fp16  V fp16             one more:    int8    int8    K fp16  V fp16
//                             └ places of block n ┘
//
// Blocks that a pass fills are written elsewhere, layer by layer, and quantised into the arena before anybody attends.
// One that earlier passes began is kept so for all layers: a pass that is stopped puts it back as it was.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_plan.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace halfline {

// The KV of all blocks: [layer][block][kv head][as KvFormat tells].
class KvArena {
 public:
  KvArena(KvFormat format, int num_layers, int num_blocks, int num_kv_heads, int head_dim)
      : format_(format), num_layers_(num_layers), num_blocks_(num_blocks), num_kv_heads_(num_kv_heads),
        head_dim_(head_dim),
        memory_(static_cast<std::size_t>(num_blocks) * static_cast<std::size_t>(block_bytes())) {}

  KvFormat format() const { return format_; }
  int num_layers() const { return num_layers_; }
  int num_kv_heads() const { return num_kv_heads_; }
  int head_dim() const { return head_dim_; }
  std::int64_t head_bytes() const { return kv_head_bytes(format_, head_dim_); }
  // Of one block: in one layer, in all.
  std::int64_t layer_block_bytes() const { return head_bytes() * num_kv_heads_; }
  std::int64_t block_bytes() const { return layer_block_bytes() * num_layers_; }
  std::int64_t layer_bytes() const { return layer_block_bytes() * num_blocks_; }

  std::uint8_t* at(int layer, int block, int head) const {
    return memory_.as<std::uint8_t>() + layer * layer_bytes() + block * layer_block_bytes() + head * head_bytes();
  }
  std::uint16_t* halves_at(int block) const { return reinterpret_cast<std::uint16_t*>(at(0, block, 0)); }

 private:
  KvFormat format_;
  int num_layers_, num_blocks_, num_kv_heads_, head_dim_;
  Memory memory_;
};

class KvWrites {
 public:
  explicit KvWrites(const KvArena& arena) : arena_(arena) {}

  // Looks at the rows of a pass before it begins.
  void plan(const std::vector<SequenceRows>& sequences, int num_rows);

  // Where the row writes.
  const HalfBlock& block_of(int row) const { return blocks_[block_of_row_[static_cast<std::size_t>(row)]]; }
  // What an attention tile of the row reads in fp16.
  HalfBlocks halves_of(int row, std::int32_t place, int layer, int head) const {
    return {place / kSlots, &block_of(row), layer, head};
  }

  // Each is done per layer, by whoever takes a unit: `bring` before rows are written, `settle` after.
  int num_to_bring() const { return static_cast<int>(kept_.size()) * arena_.num_kv_heads(); }
  void bring(int layer, int unit) const;
  int num_to_settle() const { return static_cast<int>(filled_.size()) * arena_.num_kv_heads(); }
  void settle(const Kernels& kernels, int layer, int unit) const;
  // The pass ends before this layer.
  void put_back(int layer) const;

 private:
  // A block that the pass fills: number in blocks_, place in the arena, that of the block behind it.
  struct Filled {
    std::size_t number;
    std::int32_t block, next;
  };

  HalfBlock elsewhere(Memory& memory, std::int64_t index, int num_layers) const;

  const KvArena& arena_;
  std::vector<HalfBlock> blocks_;   // of each sequence in turn, those it writes to, in the order of its table
  std::vector<std::size_t> block_of_row_;
  std::vector<Filled> filled_;      // int8 only
  std::vector<Filled> kept_;        // of these, those that were begun before
  Memory scratch_;                  // [blocks][kv head][fp16 K | V]
  Memory kept_memory_;              // [blocks][layer][kv head][fp16 K | V]
};

}  // namespace halfline

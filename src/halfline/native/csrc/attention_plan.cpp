#include "attention_plan.hpp"

#include <algorithm>

namespace halfline {
namespace {

// A sequence with more rows than this is computed by tiles.
constexpr int kMaxPartRows = 16;

std::int32_t place_of(const SequenceRows& sequence, int row) {
  return sequence.first_place + (row - sequence.first_row);
}

// How many blocks the tables of two sequences have in common at their beginning.
int common_blocks(const std::int32_t* one, int num_one, const std::int32_t* other, int num_other) {
  const std::int32_t* end = one + std::min(num_one, num_other);
  return static_cast<int>(std::mismatch(one, end, other).first - one);
}

}  // namespace

AttentionPlan::AttentionPlan(const std::vector<SequenceRows>& sequences, int first, int count,
                             const AttentionShape& shape)
    : first_row_(first), max_members_(std::max(1, kTileQueries / shape.group_size)),
      records_(static_cast<std::size_t>(count)) {
  std::vector<Reader> readers;
  for (const SequenceRows& sequence : sequences) {
    const int begin = std::max(sequence.first_row, first);
    const int end = std::min(sequence.first_row + sequence.num_rows, first + count);
    if (begin >= end) continue;
    const int num_blocks = (place_of(sequence, end - 1) + kSlots) / kSlots;
    const int num_chunks = (num_blocks + kChunkBlocks - 1) / kChunkBlocks;
    const std::int64_t records = std::int64_t{end - begin} * num_chunks;
    const int heads = shape.group_size * shape.num_kv_heads;
    const bool few = end - begin <= kMaxPartRows && (num_records_ + records) * heads <= shape.max_records;
    // A window is short, and a prefix sees what lies behind it: both are left to tiles.
    const bool by_parts = few && sequence.window == INT32_MAX && sequence.first_place >= sequence.prefix;
    for (int row = begin; row < end;) {
      const std::int32_t place = place_of(sequence, row);
      const int rows = shape.own_blocks ? std::min(end - row, kSlots - place % kSlots) : end - row;
      if (by_parts) {
        const int blocks = (place + rows - 1) / kSlots + 1;
        readers.push_back({&sequence, row, rows, blocks, shape.own_blocks ? blocks - 1 : blocks});
        for (int each = row; each < row + rows; ++each) {
          records_[static_cast<std::size_t>(each - first)] = {num_records_, readers.back().num_chunks()};
          num_records_ += readers.back().num_chunks();
        }
      } else {
        add_tiles(sequence, row, rows, std::min(kSlots, max_members_));
      }
      row += rows;
    }
  }
  divide(readers);
  cut(shape);
}

void AttentionPlan::add_tiles(const SequenceRows& sequence, int first_row, int num_rows, int tile_rows) {
  for (int row = 0; row < num_rows; row += tile_rows) {
    tiles_.push_back({&sequence, first_row + row, std::min(tile_rows, num_rows - row)});
  }
}

void AttentionPlan::divide(std::vector<Reader>& readers) {
  // In the order of their tables those that begin alike stand side by side, and all between two that share a
  // beginning share it too.
  std::sort(readers.begin(), readers.end(), [](const Reader& one, const Reader& other) {
    const std::int32_t *a = one.sequence->block_table, *b = other.sequence->block_table;
    return std::lexicographical_compare(a, a + one.num_blocks, b, b + other.num_blocks);
  });
  if (!readers.empty()) share(readers, 0, readers.size(), 0);
}

// All of readers [begin, end) have the same blocks before `chunk`.
void AttentionPlan::share(const std::vector<Reader>& readers, std::size_t begin, std::size_t end, int chunk) {
  const auto common_chunks = [&](std::size_t one, std::size_t other) {
    const Reader &a = readers[one], &b = readers[other];
    return common_blocks(a.sequence->block_table, a.num_shared, b.sequence->block_table, b.num_shared) / kChunkBlocks;
  };
  if (end - begin == 1) return add_parts(readers, begin, end, {chunk, readers[begin].num_chunks()});
  const int common = common_chunks(begin, end - 1);
  add_parts(readers, begin, end, {chunk, common});
  for (std::size_t first = begin; first < end;) {
    std::size_t last = first + 1;
    while (last < end && common_chunks(first, last) > common) ++last;
    share(readers, first, last, common);
    first = last;
  }
}

void AttentionPlan::add_parts(const std::vector<Reader>& readers, std::size_t begin, std::size_t end,
                              ChunkRange chunks) {
  if (chunks.start >= chunks.stop) return;
  const auto first = static_cast<int>(members_.size());
  for (std::size_t i = begin; i < end; ++i) {
    for (int row = 0; row < readers[i].num_rows; ++row) {
      members_.push_back({readers[i].sequence, readers[i].first_row + row});
    }
  }
  const auto stop = static_cast<int>(members_.size());
  for (int member = first; member < stop; member += max_members_) {
    parts_.push_back({member, std::min(max_members_, stop - member), readers[begin].sequence->block_table, chunks});
  }
  const std::int32_t* table = readers[begin].sequence->block_table;
  blocks_of_parts_.insert(blocks_of_parts_.end(), table + chunks.start * kChunkBlocks,
                          table + std::min(chunks.stop * kChunkBlocks, readers[begin].num_blocks));
}

// Into portions small enough to even out and large enough that setting one up does not count.
void AttentionPlan::cut(const AttentionShape& shape) {
  std::int64_t chunks = 0;
  for (const Part& part : parts_) chunks += part.chunks.stop - part.chunks.start;
  const std::int64_t share = chunks * shape.num_kv_heads / (6 * shape.num_workers);
  const auto length = static_cast<std::int32_t>(std::clamp<std::int64_t>(share, 1, 8));
  std::vector<Part> portions;
  for (const Part& part : parts_) {
    for (std::int32_t start = part.chunks.start; start < part.chunks.stop; start += length) {
      portions.push_back(part);
      portions.back().chunks = {start, std::min(start + length, part.chunks.stop)};
    }
  }
  parts_ = std::move(portions);
}

}  // namespace halfline

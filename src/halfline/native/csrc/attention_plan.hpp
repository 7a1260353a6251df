// Who attends to what together, decided once per pass: rows of a prompt in tiles, others by chunks of KV.
//
// A tile walks all KV of up to 16 rows of one sequence: right for a prompt, whose rows are many. Few rows behind a long
// context would leave workers without work, so their KV is cut into chunks that workers share, and what each chunk
// yields is merged afterwards. Sequences that begin with the same blocks read those together, once.
//
//     blocks   0  1  2  3 │ 4  5  6  7 │ 8  9 10 11
//     chunks        0     │     1      │     2
//     A        ───────────┼────────────┼──────        parts   {A, B, C} × chunk 0
//     B        ───────────┼────────────┼────────              {A, B} × chunk 1, {C} × chunk 1
//     C        ───────────┼───────                            {A} × chunk 2, {B} × chunk 2
//
// Results do not depend on any of this: see AttentionTile in kernels.hpp. Knows rows and blocks; no KV and no layers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.hpp"

namespace halfline {

// One sequence's rows of a batch.
struct SequenceRows {
  int first_row;
  int num_rows;
  std::int32_t first_place;
  const std::int32_t* block_table;
  std::int32_t window;   // INT32_MAX for none
  std::int32_t num_sinks;
  std::int32_t prefix;
};

// What the cutting depends on beside the rows.
struct AttentionShape {
  int group_size;
  int num_kv_heads;
  int num_workers;
  std::int64_t max_records;   // of parts, over all rows, chunks and heads
  bool own_blocks;            // rows read the block they lie in differently: only rows of one block go together
};

class AttentionPlan {
 public:
  // Rows of one sequence that walk all its KV.
  struct Tile {
    const SequenceRows* sequence;
    int first_row, num_rows;
  };
  // Members [first, first + count) attend to some chunks of the table.
  struct Part {
    int first_member, num_members;
    const std::int32_t* block_table;
    ChunkRange chunks;
  };
  struct Member {
    const SequenceRows* sequence;
    int row;
  };
  // Where a row's parts lie; num_chunks is 0 for the rows of tiles.
  struct Records {
    std::int64_t first = 0;   // times the number of heads
    int num_chunks = 0;
  };

  // For the rows [first, first + count) of a batch.
  AttentionPlan(const std::vector<SequenceRows>& sequences, int first, int count, const AttentionShape& shape);

  const std::vector<Tile>& tiles() const { return tiles_; }
  const std::vector<Part>& parts() const { return parts_; }
  // Blocks that parts read, in their order.
  const std::vector<std::int32_t>& blocks_of_parts() const { return blocks_of_parts_; }
  const Member& member(int index) const { return members_[static_cast<std::size_t>(index)]; }
  const Records& records(int row) const { return records_[static_cast<std::size_t>(row - first_row_)]; }
  std::int64_t num_records() const { return num_records_; }   // times the number of heads

 private:
  // A sequence's rows of this plan, which go by parts.
  struct Reader {
    const SequenceRows* sequence;
    int first_row, num_rows;
    int num_blocks;   // up to the last row's place
    int num_shared;   // of these, that others may read together with it

    int num_chunks() const { return (num_blocks + kChunkBlocks - 1) / kChunkBlocks; }
  };

  void add_tiles(const SequenceRows& sequence, int first_row, int num_rows, int tile_rows);
  void divide(std::vector<Reader>& readers);
  void share(const std::vector<Reader>& readers, std::size_t begin, std::size_t end, int chunk);
  void add_parts(const std::vector<Reader>& readers, std::size_t begin, std::size_t end, ChunkRange chunks);
  void cut(const AttentionShape& shape);

  int first_row_;
  int max_members_;
  std::int64_t num_records_ = 0;
  std::vector<Tile> tiles_;
  std::vector<Part> parts_;
  std::vector<std::int32_t> blocks_of_parts_;
  std::vector<Member> members_;
  std::vector<Records> records_;   // of each row
};

}  // namespace halfline

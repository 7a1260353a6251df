#include "attend.hpp"

#include <algorithm>

#include "linears.hpp"

namespace halfline {
namespace {

// Turns one head of a query or key to the row's place.
void turn(const Workspace& space, std::int32_t place, const float* norm, float scale, float* head) {
  const ModelShape& shape = space.shape;
  if (norm) space.kernels.norm(head, {norm, nullptr, shape.norm_eps, false}, shape.head_dim, head);
  space.kernels.rotate(head, space.rotations.cosines(place), space.rotations.sines(place), space.rotations.pairs(),
                       shape.head_dim, scale);
}

void turn_queries(const Workspace& space, const LayerWeights& layer, std::int32_t place, int num_heads,
                  float* queries) {
  for (int head = 0; head < num_heads; ++head) {
    turn(space, place, layer.q_norm, space.shape.attention_scale, queries + head * space.shape.head_dim);
  }
}

// Turns the key that one head of a slab's row has, and writes it and its value where the row keeps them.
void keep(Workspace& space, const LayerWeights& layer, const Slab& slab, int row, int head) {
  const int dim = space.shape.head_dim;
  const std::int32_t place = space.plan.place_of(slab.first + row);
  const HalfBlock& block = space.kv_writes.block_of(slab.first + row);
  const std::int64_t at = std::int64_t{row} * space.kv_stride + head * dim;
  float* key = space.keys.as<float>() + at;
  turn(space, place, layer.k_norm, 1.0f, key);
  space.kernels.store_kv(key, space.values.as<float>() + at, dim, block.keys(layer.index, head),
                         block.values(layer.index, head), place % kSlots);
}

// A step of a single row: whoever attends turns and keeps what it needs, and nobody waits for that. Blocks that are to
// be settled have to be written before, and if nothing is wanted nobody attends in the last layer.
bool turns_late(const Workspace& space) {
  return space.plan.num_rows() == 1 && space.kv_writes.num_to_settle() == 0 && !space.plan.last_slabs().empty();
}

// One tile or part of the slab's plan, of one KV head.
void attend_unit(Workspace& space, const LayerWeights& layer, const Slab& slab, int unit, int worker) {
  const ModelShape& shape = space.shape;
  const AttentionPlan& plan = *slab.attention;
  const int group = shape.group_size(), dim = shape.head_dim;
  const int head = unit % shape.num_kv_heads, number = unit / shape.num_kv_heads;
  const std::int64_t column = std::int64_t{head} * group * dim;
  AttentionRow rows[kTileQueries];
  AttentionTile tile{rows, 0, group, dim, layer.window, nullptr, space.arena.format(),
                     space.arena.at(layer.index, 0, head), space.arena.layer_block_bytes(), {},
                     space.room(worker).attention.as<float>()};
  const auto add_row = [&](const SequenceRows& sequence, int row, float* output) {
    const std::int32_t place = space.plan.place_of(row);
    tile.half_blocks = space.kv_writes.halves_of(row, place, layer.index, head);   // the same for all rows
    rows[tile.num_rows++] = {space.q_row(row) + column, output, place,
                             {sequence.window, sequence.num_sinks, sequence.prefix}};
  };
  // Of the only row: `last` for the unit that sees its own place.
  const auto turn_lone = [&](bool last) {
    if (!turns_late(space)) return;
    float* queries = space.room(worker).lone_queries.as<float>();
    std::copy_n(rows[0].queries, group * dim, queries);
    turn_queries(space, layer, rows[0].place, group, queries);
    rows[0].queries = queries;
    if (last) keep(space, layer, slab, 0, head);
  };
  const auto num_tiles = static_cast<int>(plan.tiles().size());
  if (number < num_tiles) {
    // The last tiles see most places and go first.
    const AttentionPlan::Tile& planned = plan.tiles()[static_cast<std::size_t>(num_tiles - 1 - number)];
    tile.block_table = planned.sequence->block_table;
    for (int row = planned.first_row; row < planned.first_row + planned.num_rows; ++row) {
      add_row(*planned.sequence, row,
              space.attended.as<float>() + std::int64_t{row - slab.first} * space.q_stride + column);
    }
    turn_lone(true);
    return space.kernels.attend(tile);
  }
  const AttentionPlan::Part& part = plan.parts()[static_cast<std::size_t>(number - num_tiles)];
  tile.block_table = part.block_table;
  for (int i = part.first_member; i < part.first_member + part.num_members; ++i) {
    const AttentionPlan::Member& member = plan.member(i);
    add_row(*member.sequence, member.row,
            space.part(plan.records(member.row).first + part.chunks.start, head * group));
  }
  turn_lone(part.chunks.stop == plan.records(slab.first).num_chunks);
  space.kernels.attend_parts(tile, part.chunks, std::int64_t{shape.num_heads} * part_floats(dim));
}

}  // namespace

void project_qkv(Workspace& space, const LayerWeights& layer, const Slab& slab, int worker) {
  const ModelShape& shape = space.shape;
  const int hidden = shape.hidden_size, first = slab.first;
  const Prepared normed = prepared(space, slab, space.normed, space.x_stride, worker);
  const bool quantised = layer.q.matrix.quantised() || layer.k.matrix.quantised() || layer.v.matrix.quantised();
  const LinearJob jobs[] = {
      linear_job(slab, layer.q, normed, space.q_row(first), space.q_stride),
      linear_job(slab, layer.k, normed, space.keys.as<float>(), space.kv_stride),
      linear_job(slab, layer.v, normed, space.values.as<float>(), space.kv_stride),
  };
  prepare(space, slab, normed, hidden, quantised, worker, [&](int row) {
    space.kernels.norm(space.x_row(first + row), layer.attn_norm, hidden, normed.row(row));
  });
  run_linears(space, jobs, worker);

  if (turns_late(space)) return;
  share_rows(space, slab.count, worker, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      turn_queries(space, layer, space.plan.place_of(first + row), shape.num_heads, space.q_row(first + row));
      for (int head = 0; head < shape.num_kv_heads; ++head) keep(space, layer, slab, row, head);
    }
  });
}

void read_kv_ahead(Workspace& space, const LayerWeights* next, const Slab& slab, int worker) {
  ReadAhead& ahead = space.room(worker).ahead;
  ahead = {};
  if (!next || next->window != INT32_MAX || space.plan.slabs().size() > 1) return;
  const std::vector<std::int32_t>& blocks = slab.attention->blocks_of_parts();
  const auto start = [&](int share) {
    return blocks.data() + static_cast<int>(blocks.size()) * share / space.team.size();
  };
  ahead = {space.arena.at(next->index, 0, 0), space.arena.layer_block_bytes(), start(worker), start(worker + 1)};
}

void attend(Workspace& space, const LayerWeights& layer, const Slab& slab, int worker) {
  const ModelShape& shape = space.shape;
  const AttentionPlan& plan = *slab.attention;
  const auto units = static_cast<int>(plan.tiles().size() + plan.parts().size()) * shape.num_kv_heads;
  const auto attend_to = [&](int unit, int) { attend_unit(space, layer, slab, unit, worker); };
  if (plan.tiles().empty()) {
    // Each begins with what it asked for, nearly: parts that read the same blocks are counted one by one here.
    const auto start = [&](int share) { return units * share / space.team.size(); };
    space.team.share_stretches(worker, 1, start, attend_to);
  } else {
    space.team.share(units, 1, attend_to);
  }

  const int dim = shape.head_dim, q_size = shape.q_size();
  const Prepared attended = prepared(space, slab, space.attended, space.q_stride, worker);
  const LinearJob job = residual_job(space, slab, layer.o, attended);
  prepare(space, slab, attended, q_size, layer.o.matrix.quantised(), worker, [&](int row) {
    float* merged = attended.row(row);
    const AttentionPlan::Records& records = plan.records(slab.first + row);
    if (records.num_chunks > 0) {
      for (int head = 0; head < shape.num_heads; ++head) {
        space.kernels.merge_parts(space.part(records.first, head), records.num_chunks,
                                  std::int64_t{shape.num_heads} * part_floats(dim), dim, merged + head * dim);
      }
    } else if (slab.count == 1) {
      std::copy_n(space.attended.as<float>(), q_size, merged);   // a lone row is prepared elsewhere
    }
  });
  run_linears(space, {&job, 1}, worker);
}

}  // namespace halfline

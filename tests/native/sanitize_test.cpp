// The kernels, the thread team and the engine on their own, for the compiler's sanitizers: `make sanitize`.
//
//   linears       every format, random shapes, every number of rows up to two tiles, against a plain double loop
//   rows          norms, activation functions, rotation, against the same
//   attention     random masks, groups, contexts, KV formats and block tables, whole and in parts, against the same
//   reading ahead what random batches ask for is every block that their parts attend to, and none besides
//   team          thousands of fork-joins whose work must add up
//   engine        a tiny random model on two threads: whole, in chunks, in company and stopped
//
// Operands of single kernels lie in heap memory of exactly their size, so that one byte too far is seen. Exact numbers
// are what the Python tests hold; here a result must be near, and every access and every race right.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine.hpp"
#include "isa.hpp"
#include "pack.hpp"
#include "unpack.hpp"

using namespace halfline;

namespace {

std::mt19937 generator{20260101};

int random_int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }

std::vector<float> random_floats(int count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

void require(bool right, const std::string& what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what.c_str());
  std::exit(1);
}

// `size` is the sum of the magnitudes that were added up.
void require_near(double actual, double expected, double size, const std::string& what) {
  require(std::abs(actual - expected) <= 2e-5 * size + 1e-6,
          what + ": " + std::to_string(actual) + " instead of " + std::to_string(expected));
}

// Aligned like the engine's own memory, without slack at its end.
template <class T>
class Exact {
 public:
  explicit Exact(std::size_t count)
      : count_(count), data_(static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{64}))) {
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
  }
  ~Exact() { ::operator delete(data_, std::align_val_t{64}); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  T* get() const { return data_; }
  std::size_t count() const { return count_; }

 private:
  std::size_t count_;
  T* data_;
};

// ---- Linears --------------------------------------------------------------------------------------------------

constexpr Format kFormats[] = {Format::F32,  Format::F16,  Format::BF16, Format::Q4_0, Format::Q4_1,
                               Format::Q5_0, Format::Q5_1, Format::Q8_0, Format::Q4_K, Format::Q5_K, Format::Q6_K};

// Where the 16-bit floats of a block lie; everything else is random bits.
struct HalfPlaces {
  int block_bytes;
  std::vector<int> offsets;
};

HalfPlaces half_places(Format format) {
  switch (format) {
    case Format::Q4_0: return {18, {0}};
    case Format::Q4_1: return {20, {0, 2}};
    case Format::Q5_0: return {22, {0}};
    case Format::Q5_1: return {24, {0, 2}};
    case Format::Q8_0: return {34, {0}};
    case Format::Q4_K: return {144, {0, 2}};
    case Format::Q5_K: return {176, {0, 2}};
    case Format::Q6_K: return {210, {208}};
    case Format::F16:
    case Format::BF16: return {2, {0}};
    default: return {4, {}};
  }
}

std::vector<std::uint8_t> random_file(Format format, int rows, int cols) {
  const std::size_t bytes = file_row_bytes(format, cols) * static_cast<std::size_t>(rows);
  std::vector<std::uint8_t> file(bytes);
  if (format == Format::F32) {
    const std::vector<float> values = random_floats(rows * cols);
    std::memcpy(file.data(), values.data(), bytes);
    return file;
  }
  for (std::uint8_t& byte : file) byte = static_cast<std::uint8_t>(random_int(0, 255));
  const HalfPlaces halves = half_places(format);
  for (std::size_t block = 0; block < bytes; block += static_cast<std::size_t>(halves.block_bytes)) {
    for (const int offset : halves.offsets) {
      // Magnitudes from 2^-7 up, either sign: 0x2000 in fp16, 0x3c00 in bfloat16.
      const int base = format == Format::BF16 ? 0x3c00 : 0x2000;
      const auto half = static_cast<std::uint16_t>(base + random_int(0, 0x7ff) + (random_int(0, 1) << 15));
      std::memcpy(file.data() + block + static_cast<std::size_t>(offset), &half, 2);
    }
  }
  return file;
}

// What a quantised linear multiplies with.
std::vector<double> as_multiplied(const std::vector<float>& x, bool quantised) {
  std::vector<double> result(x.begin(), x.end());
  if (!quantised) return result;
  for (std::size_t block = 0; block < x.size(); block += kBlockValues) {
    float largest = 0;
    for (int i = 0; i < kBlockValues; ++i) largest = std::max(largest, std::abs(x[block + static_cast<std::size_t>(i)]));
    for (int i = 0; i < kBlockValues; ++i) {
      const std::size_t at = block + static_cast<std::size_t>(i);
      const float inverse = largest > 1e-30f ? 127.0f / largest : 0.0f;
      result[at] = std::nearbyint(x[at] * inverse) * static_cast<double>(largest / 127.0f);
    }
  }
  return result;
}

void check_linear(const Kernels& kernels, Format format, int num_rows) {
  const int values = format == Format::Q4_K || format == Format::Q5_K || format == Format::Q6_K ? 256 : 32;
  const bool is_float = format == Format::F32 || format == Format::F16 || format == Format::BF16;
  const int cols = is_float ? random_int(1, 90) : values * random_int(1, 3), outs = random_int(1, 70);
  const std::string what = std::string(kernels.name) + " linear, format " + std::to_string(static_cast<int>(format)) +
                           ", " + std::to_string(outs) + " x " + std::to_string(cols) + ", rows " +
                           std::to_string(num_rows);

  PackedMatrix matrix = packed_shape(format, outs, cols);
  const Exact<std::uint8_t> packed(static_cast<std::size_t>(matrix.panels) * matrix.panel_bytes);
  const std::vector<std::uint8_t> file = random_file(format, outs, cols);
  pack_panels(matrix, file.data(), 0, matrix.panels, packed.get());
  matrix.data = packed.get();

  const std::vector<float> input = random_floats(num_rows * cols);
  // Some rows have a second term, whose products are added.
  std::vector<std::int32_t> refined;
  for (int row = 0; matrix.quantised() && row < num_rows; ++row) {
    if (random_int(0, 2) == 0) refined.push_back(row);
  }
  const int num_terms = num_rows + static_cast<int>(refined.size());
  const auto blocks = static_cast<std::size_t>(num_terms) * static_cast<std::size_t>(cols / kBlockValues);
  const Exact<std::int8_t> quants(blocks * kBlockValues + 1);
  const Exact<float> scales(blocks + 1), sums(blocks + 1);
  const Exact<std::int32_t> negated(2 * blocks + 1);
  const QuantRows quant{quants.get(), scales.get(), sums.get(), negated.get()};
  for (int row = 0; matrix.quantised() && row < num_rows;) {
    const int count = std::min(num_rows - row, kernels.tile_rows - row % kernels.tile_rows);
    kernels.quantise(input.data() + row * cols, cols, count, cols, row, num_terms, quant);
    row += count;
  }
  for (std::size_t i = 0; i < refined.size(); ++i) {
    kernels.quantise_rest(input.data() + refined[i] * cols, cols, num_rows + static_cast<int>(i), num_terms, quant);
  }
  const Exact<std::uint8_t> scratch(static_cast<std::size_t>(linear_scratch_bytes(cols)));
  const bool accumulate = random_int(0, 1) == 1, biased = random_int(0, 1) == 1;
  const std::vector<float> bias = random_floats(matrix.panels * kPanelRows);
  std::vector<float> output = random_floats(num_rows * outs);
  const std::vector<float> before = output;
  // In two portions, as two workers would.
  const LinearJob job{&matrix, biased ? bias.data() : nullptr, num_rows, input.data(), cols, quant, output.data(),
                      outs, accumulate, 0.5f, refined.data(), static_cast<int>(refined.size())};
  const int middle = random_int(0, matrix.panels);
  if (middle > 0) kernels.linear(job, 0, middle, scratch.get());
  if (middle < matrix.panels) kernels.linear(job, middle, matrix.panels, scratch.get());

  std::vector<float> weights(static_cast<std::size_t>(cols) + 64);
  std::vector<double> multiplied = as_multiplied(input, matrix.quantised());
  // Two terms hold a value to some 15 bits: as good as the value itself here.
  for (const std::int32_t row : refined) {
    std::copy_n(input.begin() + row * cols, cols, multiplied.begin() + row * cols);
  }
  for (int out = 0; out < outs; ++out) {
    unpack_row(matrix, out, weights.data());
    for (int row = 0; row < num_rows; ++row) {
      double sum = 0, size = 0;
      for (int k = 0; k < cols; ++k) {
        const double product = weights[static_cast<std::size_t>(k)] * multiplied[static_cast<std::size_t>(row * cols + k)];
        sum += product;
        size += std::abs(product);
      }
      const auto at = static_cast<std::size_t>(row * outs + out);
      if (biased) sum += bias[static_cast<std::size_t>(out)];
      if (accumulate) sum = before[at] + 0.5 * sum;
      // A minimum is added per block, beyond what the products show.
      require_near(output[at], sum, 10 * size + std::abs(sum) + 1, what);
    }
  }
}

// ---- Rows -----------------------------------------------------------------------------------------------------

void check_rows(const Kernels& kernels) {
  const int n = random_int(1, 200);
  const std::vector<float> x = random_floats(n), weight = random_floats(n), bias = random_floats(n);
  std::vector<float> output(static_cast<std::size_t>(n));
  const bool subtract_mean = random_int(0, 1) == 1;
  kernels.norm(x.data(), {weight.data(), subtract_mean ? bias.data() : nullptr, 1e-5f, subtract_mean}, n, output.data());
  double mean = 0, square = 0;
  for (const float value : x) mean += subtract_mean ? value / static_cast<double>(n) : 0.0;
  for (const float value : x) square += (value - mean) * (value - mean) / n;
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double expected = (x[at] - mean) / std::sqrt(square + 1e-5) * weight[at] + (subtract_mean ? bias[at] : 0.0f);
    require_near(output[at], expected, 10 + std::abs(expected), std::string(kernels.name) + " norm");
  }

  const int padded = 16 * random_int(1, 9);
  const std::vector<float> gate = random_floats(padded), up = random_floats(padded);
  std::vector<float> gated(static_cast<std::size_t>(padded)), gelu(static_cast<std::size_t>(padded));
  kernels.gate(gate.data(), up.data(), padded, gated.data());
  kernels.gelu(gate.data(), padded, gelu.data());
  for (std::size_t i = 0; i < gated.size(); ++i) {
    const double g = gate[i];
    require_near(gated[i], g / (1 + std::exp(-g)) * up[i], 1, std::string(kernels.name) + " gate");
    require_near(gelu[i], g / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))), 1,
                 std::string(kernels.name) + " gelu");
  }

  const int half = random_int(1, 32), dim = 2 * half + random_int(0, 8);
  std::vector<float> head = random_floats(dim), cosines, sines;
  const std::vector<float> before = head;
  for (int i = 0; i < half; ++i) {
    cosines.push_back(static_cast<float>(std::cos(i)));
    sines.push_back(static_cast<float>(std::sin(i)));
  }
  kernels.rotate(head.data(), cosines.data(), sines.data(), half, dim, 0.25f);
  for (int i = 0; i < dim; ++i) {
    const auto at = [&](int j) { return static_cast<double>(before[static_cast<std::size_t>(j)]); };
    double expected = at(i);
    if (i < half) expected = at(i) * std::cos(i) - at(i + half) * std::sin(i);
    else if (i < 2 * half) expected = at(i) * std::cos(i - half) + at(i - half) * std::sin(i - half);
    require_near(head[static_cast<std::size_t>(i)], 0.25 * expected, 4, std::string(kernels.name) + " rotate");
  }
}

// ---- Attention ------------------------------------------------------------------------------------------------

// KV of one head: what was stored, and what readers of each format see of it.
struct StoredKv {
  Exact<std::uint8_t> blocks;   // in the tile's format
  Exact<std::uint16_t> halves;   // of every block
  std::vector<std::int32_t> table;
  std::vector<float> keys, values;   // [places][dim], as fp16
  std::vector<float> int8_keys, int8_values;

  StoredKv(const Kernels& kernels, KvFormat format, int places, int dim)
      : blocks(static_cast<std::size_t>(num_blocks(places) * kv_head_bytes(format, dim))),
        halves(static_cast<std::size_t>(num_blocks(places) * half_values(dim))),
        keys(random_floats(places * dim)),
        values(random_floats(places * dim)) {
    for (int i = 0; i < num_blocks(places); ++i) table.push_back(num_blocks(places) - 1 - i);
    for (int place = 0; place < places; ++place) {
      std::uint16_t* block = half_block(place / kSlots, dim);
      kernels.store_kv(keys.data() + place * dim, values.data() + place * dim, dim, block, block + kSlots * dim,
                       place % kSlots);
    }
    for (float& key : keys) key = static_cast<float>(static_cast<_Float16>(key));
    for (float& value : values) value = static_cast<float>(static_cast<_Float16>(value));
    int8_keys = keys;
    int8_values = values;
    for (int block = 0; block < places / kSlots; ++block) {
      for (int d = 0; d < dim; ++d) round_to_int8(int8_keys.data() + block * kSlots * dim + d, kSlots, dim);
    }
    for (int place = 0; place < places; ++place) round_to_int8(int8_values.data() + place * dim, dim, 1);
    for (int number = 0; number < num_blocks(places); ++number) {
      std::uint8_t* block = blocks.get() + table[static_cast<std::size_t>(number)] * kv_head_bytes(format, dim);
      const std::uint16_t* half = half_block(number, dim);
      if (format == KvFormat::f16) {
        std::memcpy(block, half, static_cast<std::size_t>(kv_head_bytes(format, dim)));
      } else if ((number + 1) * kSlots <= places) {
        kernels.quantise_kv(half, half + kSlots * dim, dim, block);
      }
    }
  }
  static int num_blocks(int places) { return (places + kSlots - 1) / kSlots; }
  std::uint16_t* half_block(int number, int dim) const { return halves.get() + number * half_values(dim); }

  // `count` numbers at a distance of `stride` get one scale.
  static void round_to_int8(float* x, int count, int stride) {
    float highest = 0;
    for (int i = 0; i < count; ++i) highest = std::max(highest, std::abs(x[i * stride]));
    for (int i = 0; i < count && highest > 0; ++i) {
      x[i * stride] = std::nearbyint(x[i * stride] * (127 / highest)) * highest / 127;
    }
  }
};

// The same rows as one tile, and as parts that are merged: both against a double loop.
void check_attention(const Kernels& kernels, KvFormat format) {
  const int dim = 16 * random_int(1, 16), group = random_int(1, 9);
  int rows = random_int(1, std::max(1, std::min(kSlots, kTileQueries / group)));
  const int first = random_int(0, 300);
  // In int8 the rows of a tile lie in one block.
  if (format == KvFormat::int8) rows = std::min(rows, kSlots - first % kSlots);
  const int places = first + rows;
  MaskRule mask{INT32_MAX, 0, 0};
  std::int32_t layer_window = INT32_MAX;
  switch (random_int(0, 3)) {
    case 1: mask.window = random_int(1, 150); mask.num_sinks = random_int(0, 40); break;
    case 2: layer_window = random_int(1, 150); break;
    case 3:
      if (first == 0) mask.prefix = random_int(0, rows);
      break;
    default: break;
  }

  const StoredKv kv(kernels, format, places, dim);
  std::vector<float> queries = random_floats(rows * group * dim), output(queries.size()), merged(queries.size());
  for (float& query : queries) query /= std::sqrt(static_cast<float>(dim));
  const Exact<float> scratch(static_cast<std::size_t>(attention_scratch_floats(group, dim)));
  std::vector<HalfBlock> halves;
  const int own = first / kSlots;
  for (int number = own; number * kSlots < places; ++number) {
    std::uint16_t* half = kv.half_block(number, dim);
    halves.push_back({half, half + kSlots * dim, 0, 0});
  }
  std::vector<AttentionRow> tile_rows;
  const auto tile = [&](const auto& output_of) {
    tile_rows.clear();
    for (int row = 0; row < rows; ++row) {
      tile_rows.push_back({queries.data() + row * group * dim, output_of(row), first + row, mask});
    }
    return AttentionTile{tile_rows.data(), rows, group, dim, layer_window, kv.table.data(), format, kv.blocks.get(),
                         kv_head_bytes(format, dim), {own, halves.data(), 0, 0}, scratch.get()};
  };
  kernels.attend(tile([&](int row) { return output.data() + row * group * dim; }));

  const int num_chunks = (places + kChunkBlocks * kSlots - 1) / (kChunkBlocks * kSlots);
  const std::int64_t stride = std::int64_t{group} * part_floats(dim);
  const Exact<float> parts(static_cast<std::size_t>(rows * num_chunks * stride));
  for (int start = 0; start < num_chunks;) {
    const int stop = std::min(start + random_int(1, 3), num_chunks);
    kernels.attend_parts(tile([&](int row) { return parts.get() + (row * num_chunks + start) * stride; }), {start, stop},
                         stride);
    start = stop;
  }
  for (int query = 0; query < rows * group; ++query) {
    kernels.merge_parts(parts.get() + query / group * num_chunks * stride + query % group * part_floats(dim), num_chunks,
                        stride, dim, merged.data() + query * dim);
  }
  const std::string name = std::string(kernels.name) + (format == KvFormat::f16 ? " f16" : " int8") +
                           " attention, head " + std::to_string(dim) + ", group " + std::to_string(group) + ", rows " +
                           std::to_string(rows) + " from " + std::to_string(first);
  require(merged == output, name + ": merged parts are the tile, bit by bit");

  for (int query = 0; query < rows * group; ++query) {
    const int i = first + query / group;
    const auto stored = [&](int j) { return format == KvFormat::int8 && j / kSlots < i / kSlots; };
    std::vector<double> weight(static_cast<std::size_t>(places));
    double total = 0;
    for (int j = 0; j < places; ++j) {
      const bool causal = j <= i && (i - j < mask.window || j < mask.num_sinks);
      const bool seen = (causal || (j < mask.prefix && i < mask.prefix)) && (i < layer_window || j > i - layer_window);
      if (!seen) continue;
      double score = 0;
      for (int d = 0; d < dim; ++d) {
        score += static_cast<double>(queries[static_cast<std::size_t>(query * dim + d)]) *
                 (stored(j) ? kv.int8_keys : kv.keys)[static_cast<std::size_t>(j * dim + d)];
      }
      total += weight[static_cast<std::size_t>(j)] = std::exp(score);
    }
    for (int d = 0; d < dim; ++d) {
      double expected = 0;
      for (int j = 0; j < places; ++j) {
        expected += weight[static_cast<std::size_t>(j)] / total *
                    (stored(j) ? kv.int8_values : kv.values)[static_cast<std::size_t>(j * dim + d)];
      }
      // A number between two int8 values may fall either way.
      const double size = format == KvFormat::int8 ? 200 : 4;
      require_near(output[static_cast<std::size_t>(query * dim + d)], expected, size, name);
    }
  }
}

// ---- Reading ahead --------------------------------------------------------------------------------------------

// Sequences of which some begin alike and one is a prompt; each has a table that ends where its places do.
void check_read_ahead() {
  std::vector<std::vector<std::int32_t>> tables;
  std::vector<SequenceRows> sequences;
  std::set<std::int32_t> read;
  int first_row = 0;
  const int count = random_int(1, 20), prompt = random_int(0, count);
  for (int i = 0; i < count; ++i) {
    const int rows = i == prompt ? random_int(17, 60) : random_int(1, 16), first_place = random_int(0, 500);
    const int blocks = (first_place + rows - 1) / kSlots + 1, alike = std::min(blocks, random_int(0, 12));
    std::vector<std::int32_t> table;
    for (int number = 0; number < blocks; ++number) table.push_back(number < alike ? number : 100 * (i + 1) + number);
    if (i != prompt) read.insert(table.begin(), table.end());
    tables.push_back(std::move(table));
    sequences.push_back({first_row, rows, first_place, tables.back().data(), INT32_MAX, 0, 0});
    first_row += rows;
  }
  const AttentionShape shape{random_int(1, 9), random_int(1, 4), random_int(1, 4), 1 << 20, random_int(0, 1) == 1};
  const AttentionPlan plan(sequences, 0, first_row, shape);
  const std::vector<std::int32_t>& blocks = plan.blocks_of_parts();
  require(std::set<std::int32_t>(blocks.begin(), blocks.end()) == read, "blocks that parts read");

  constexpr int kPieceBytes = 192;
  const Exact<std::uint8_t> memory(kPieceBytes);
  ReadAhead ahead{memory.get(), kPieceBytes, blocks.data(), blocks.data() + blocks.size()};
  std::size_t asked = 0;
  for (; ahead.next != ahead.end; ++asked) ahead.ask(1);
  require(asked == blocks.size() * kPieceBytes / 64, "lines asked for");
  ahead.ask(3);
  require(ahead.next == ahead.end && ahead.done == 0, "nothing is left to ask for");
}

// ---- Team -----------------------------------------------------------------------------------------------------

void check_team(int size, int rounds) {
  Team team(size);
  for (int round = 0; round < rounds; ++round) {
    const int units = random_int(0, 40), grain = random_int(1, 5);
    std::vector<int> first(static_cast<std::size_t>(units)), second(static_cast<std::size_t>(units));
    int alone = 0;
    team.run([&](int worker) {
      team.share(units, grain, [&](int begin, int end) {
        for (int i = begin; i < end; ++i) ++first[static_cast<std::size_t>(i)];
      });
      team.barrier([&] { ++alone; });
      // Reads what others wrote before the barrier.
      team.share(units, 1, [&](int i, int) {
        second[static_cast<std::size_t>(i)] = first[static_cast<std::size_t>(units - 1 - i)] + alone;
      });
      team.share_stretches(worker, grain, [&](int owner) { return units * owner / size; }, [&](int begin, int end) {
        for (int i = begin; i < end; ++i) second[static_cast<std::size_t>(i)] += first[static_cast<std::size_t>(i)];
      });
    });
    for (const int value : second) require(value == 3, "a unit of work ran once and was seen by all");
    require(alone == 1, "one worker was alone");
  }
}

// ---- Engine ---------------------------------------------------------------------------------------------------

constexpr int kVocab = 1675, kBlocks = 24;

ModelShape tiny_shape() {
  ModelShape shape;
  shape.num_layers = 2;
  shape.hidden_size = 64;
  shape.num_heads = 4;
  shape.num_kv_heads = 2;
  shape.head_dim = 32;
  shape.ffn_size = 96;
  shape.vocab_size = kVocab;
  shape.max_context = 256;
  shape.norm_eps = 1e-5f;
  shape.attention_scale = 0.2f;
  for (int i = 0; i < 16; ++i) shape.inverse_frequencies.push_back(std::pow(10000.0, -i / 16.0));
  shape.layer_windows = {INT32_MAX, INT32_MAX};
  return shape;
}

void load_tiny(Engine& engine, Format format) {
  const auto matrix = [&](const std::string& name, int rows, int cols) {
    const std::vector<std::uint8_t> file = random_file(format, rows, cols);
    engine.add_matrix(name + ".weight", format, rows, cols, file.data());
  };
  const auto norm = [&](const std::string& name) { engine.add_vector(name + ".weight", random_floats(64).data(), 64); };
  matrix("embed", kVocab, 64);
  for (const char* layer : {"layers.0.", "layers.1."}) {
    const std::string prefix = layer;
    norm(prefix + "attn_norm");
    norm(prefix + "ffn_norm");
    matrix(prefix + "q", 128, 64);
    matrix(prefix + "k", 64, 64);
    matrix(prefix + "v", 64, 64);
    matrix(prefix + "o", 64, 128);
    matrix(prefix + "gate", 96, 64);
    matrix(prefix + "up", 96, 64);
    matrix(prefix + "down", 64, 96);
  }
  norm("final_norm");
  engine.finish_loading();
}

// Runs places [first, first + count) of one sequence that keeps its KV in blocks from `first_block` on, perhaps with a
// mate, and returns the logits of its last row, if they are wanted.
std::vector<float> run_places(Engine& engine, const std::vector<std::int32_t>& tokens, int first, int count,
                              int first_block, bool mate, bool wanted = true) {
  std::vector<std::int32_t> ids(tokens.begin() + first, tokens.begin() + first + count), table;
  for (int block = 0; block < 8; ++block) table.push_back(first_block + block);
  const std::vector<std::int32_t> mates_table{20, 21, 22, 23};
  BatchView batch{nullptr, count, {{0, count, first, table.data(), INT32_MAX, 0, 0}}, nullptr, 1, nullptr, 0, nullptr, 1};
  if (mate) {
    for (int i = 0; i < 3; ++i) ids.push_back(i);
    batch.sequences.push_back({count, 3, 5, mates_table.data(), INT32_MAX, 0, 0});
    batch.num_rows += 3;
  }
  const std::int32_t last = count - 1;
  batch.token_ids = ids.data();
  if (!wanted) {
    batch.num_logit_rows = batch.num_choice_rows = 0;
    require(engine.run(batch, {nullptr, nullptr, {}, nullptr}), "a step of which nothing is wanted finishes");
    return {};
  }
  batch.logit_rows = &last;
  std::vector<std::int32_t> choice_rows;
  for (int row = 0; row < count; ++row) {
    if (row == last || random_int(0, 1) == 1) choice_rows.push_back(row);
  }
  batch.choice_rows = choice_rows.data();
  batch.num_choice_rows = static_cast<int>(choice_rows.size());
  std::vector<float> logits(kVocab);
  std::vector<std::int32_t> choices(choice_rows.size());
  require(engine.run(batch, {logits.data(), nullptr, {}, choices.data()}), "a step that nobody stops finishes");
  require(choices.back() == std::ranges::max_element(logits) - logits.begin(), "the largest logit is chosen");
  return logits;
}

void check_engine(Format format, KvFormat kv_format, Isa isa) {
  Engine engine(tiny_shape(), kv_format, kBlocks, 2, isa);
  load_tiny(engine, format);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 100; ++i) tokens.push_back(random_int(0, kVocab - 1));
  const std::vector<float> whole = run_places(engine, tokens, 0, 100, 0, false);
  for (const float logit : whole) require(std::isfinite(logit), "logits are finite");
  std::vector<float> logits;
  for (int first = 0; first < 100;) {
    const int count = std::min(random_int(0, 1) == 1 ? 1 : random_int(1, 17), 100 - first);
    const bool wanted = first + count == 100 || random_int(0, 2) == 0;
    logits = run_places(engine, tokens, first, count, 8, random_int(0, 1) == 1, wanted);
    first += count;
  }
  require(logits == whole, "chunks and company change no bit");

  std::vector<std::int32_t> table_of_run, run_ids(40), ids{7};
  for (int block = 0; block < 8; ++block) table_of_run.push_back(16 + block);
  const GreedyRun run{7, {0, 1, 0, table_of_run.data(), INT32_MAX, 0, 0}, {}, static_cast<int>(run_ids.size())};
  const int done = engine.decode(run, run_ids.data());
  for (int place = 0; place < done; ++place) {
    logits = run_places(engine, ids, place, 1, 8, false);
    ids.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  require(done == 40 && std::equal(run_ids.begin(), run_ids.end(), ids.begin() + 1), "a run is its single steps");

  engine.stop_flag().store(true);
  require(engine.decode(run, run_ids.data()) == 0, "a stopped run gives up");
  const std::int32_t token = 1, row = 0;
  const std::vector<std::int32_t> table{0, 1};   // an open block of int8 KV lies in two
  BatchView batch{&token, 1, {{0, 1, 0, table.data(), INT32_MAX, 0, 0}}, &row, 1, nullptr, 0, nullptr, 0};
  require(!engine.run(batch, {logits.data(), nullptr, {}, nullptr}), "a stopped step gives up");
  engine.stop_flag().store(false);
}

}  // namespace

// `sanitize_test quick` leaves the arithmetic out: what matters to the thread sanitizer is the team and the engine.
int main(int count, char** words) {
  const bool quick = count > 1 && std::string(words[1]) == "quick";
  if (!quick) {
    for (const Isa isa : usable_isas()) {
      const Kernels& kernels = kernels_of(isa);
      for (const Format format : kFormats) {
        for (int rows = 1; rows <= 2 * kernels.tile_rows + 1; ++rows) check_linear(kernels, format, rows);
        check_linear(kernels, format, 40);
      }
      for (int i = 0; i < 40; ++i) check_rows(kernels);
      for (int i = 0; i < 60; ++i) check_attention(kernels, i % 2 ? KvFormat::f16 : KvFormat::int8);
      std::printf("%s: linears, rows and attention\n", kernels.name);
    }
  }
  for (int i = 0; i < 500; ++i) check_read_ahead();
  std::printf("reading ahead: 500 batches\n");
  for (const int size : {1, 2, 3}) check_team(size, 4000);
  std::printf("team: %d fork-joins of 1, 2 and 3 threads\n", 3 * 4000);
  for (const Format format : {Format::F32, Format::Q4_1, Format::Q8_0}) {
    for (const KvFormat kv_format : {KvFormat::f16, KvFormat::int8}) {
      for (const Isa isa : usable_isas()) check_engine(format, kv_format, isa);
    }
  }
  std::printf("engine: two threads, whole, in chunks, in company, stopped\n");
}

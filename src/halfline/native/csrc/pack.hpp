// Brings a matrix from its file's layout into panels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "packed.hpp"

namespace halfline {

// Describes a matrix of this shape; `data` is left null. Throws std::invalid_argument for a shape that the format
// cannot have.
PackedMatrix packed_shape(Format format, int rows, int cols);

// Bytes of one row in a file.
std::size_t file_row_bytes(Format format, int cols);

// Packs panels [begin, end) of the file's rows into `data`, which is zeroed and laid out as `shape` says.
void pack_panels(const PackedMatrix& shape, const std::uint8_t* file, int begin, int end, std::uint8_t* data);

}  // namespace halfline

// SPDX-License-Identifier: Apache-2.0
#pragma once

// One safetensors file: eight bytes with the length of a JSON header, the header (name, type, shape
// and place of every tensor), then the tensors' bytes, little-endian and row-major, without gaps.
// Format: the README of the safetensors project. Reading trusts nothing: a header that does not
// cover the file's data exactly once is refused.

#include "core/types.hpp"
#include "io/files.hpp"
#include "io/mapped_file.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace evener::io {

/// Types of models; a file with a tensor of another listed type (`other`: integers, F64, F8_E4M3,
/// F8_E5M2, BOOL) can be opened, but not that tensor read. Any other type fails the file.
enum class StoredType : std::uint8_t { float32, bfloat16, float16, other };

struct StoredTensor {
    std::string name;
    StoredType type = StoredType::other;
    std::string type_name; ///< as the file writes it: "F32", "BF16", "F16", ...
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0; ///< byte in the file
    std::int64_t bytes = 0;

    std::int64_t elements() const;
};

class SafetensorsFile {
  public:
    /// Throws core::IoError that names the fault.
    explicit SafetensorsFile(std::string const& path);

    std::string const& path() const { return file_.path(); }
    /// Ascending by place in the file.
    std::vector<StoredTensor> const& tensors() const { return tensors_; }
    /// Elements [elements.begin, elements.end) of a tensor of this file, as float32 (exact for every
    /// type of StoredType but `other`). Throws core::IoError for `other`.
    void read(StoredTensor const& tensor, core::Range elements, float* dst) const;

  private:
    MappedFile file_;
    std::vector<StoredTensor> tensors_;
};

/// Writes a file of tensors of one type: whole or not at all.
class SafetensorsWriter {
  public:
    /// float32 or bfloat16; others throw core::ContractViolation. The tensors are written in the
    /// order of the list. `metadata` becomes the header's `__metadata__`.
    SafetensorsWriter(std::string const& path, StoredType type,
                      std::vector<std::pair<std::string, std::vector<std::int64_t>>> const& tensors,
                      std::map<std::string, std::string> const& metadata);

    /// The next values of the file; bfloat16 rounds to nearest, ties to even.
    void append(std::span<float const> values);
    /// All values must have been appended. Makes the file durable and gives it its name.
    void finish();

  private:
    AtomicFile file_;
    StoredType type_;
    std::int64_t missing_ = 0; ///< elements
    std::vector<std::uint16_t> rounded_;
};

} // namespace evener::io

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Prepared operations of one device, one per shape: the layers of a model share most of theirs.

#include "device/device.hpp"
#include "model/chunk_layout.hpp"
#include "program/plan.hpp"

#include <map>
#include <string>

namespace evener::runtime {

class OperationCache {
  public:
    explicit OperationCache(device::Device const& device) : device_{device} {}

    device::Device const& device() const { return device_; }
    /// Stays valid as long as the cache. Throws core::DeviceError with the reason of a refusal.
    device::PreparedOperation const& get(kernels::OperationShape const& shape);
    /// The largest workspace of all operations prepared so far, a multiple of 64.
    std::int64_t workspace_bytes() const { return workspace_bytes_; }

  private:
    device::Device const& device_;
    std::map<std::string, device::PreparedOperation> operations_; // by the shape's fields
    std::int64_t workspace_bytes_ = 0;
};

/// Prepares every operation with a workspace that `rank` will run under the plan and returns the workspace it needs, so
/// that lowering can size the arena. A shape that no implementation takes is an error here, before
/// step 1.
std::int64_t prepare_plan(OperationCache& cache, program::Plan const& plan,
                          model::Model const& model, core::RankId rank, bool adamw);

} // namespace evener::runtime

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Predictions of a training step, and files with pictures of them.

#include "job/job.hpp"
#include "planner/profile.hpp"
#include "schedule/draw.hpp"

#include "app/commands.hpp"

#include <string>
#include <vector>

namespace evener::app {

/// Throws core::ConfigError where one file is to hold two pictures.
void check_picture_files(PictureFiles const& files);

/// Writes each file whole or not at all; returns their paths. Throws core::IoError.
std::vector<std::string> write_pictures(schedule::Drawing const& drawing,
                                        PictureFiles const& files);

/// When each instruction of the programs will run by the costs of the profile.
schedule::Simulation predict(program::ProgramSet const& set, model::Model const& model,
                             planner::Profile const& profile);

/// Name of the run, schedule and sizes.
std::string picture_title(job::Job const& job, program::Plan const& plan);

/// "predicted step: 12.3 ms, ... by FLOPs over matrix rates", and, unless layers were `measured`, that
/// this is a guess.
std::string prediction_line(program::ProgramSet const& set, program::Timeline const& predicted,
                            std::string const& source, bool measured);

} // namespace evener::app

#pragma once

#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include "lathe/evaluate.hpp"
#include "python/fields.hpp"

namespace lathe::python {

/// The fields are TASK_OPTIONS of python/lathe/_inputs.py.
inline TaskOptions task_of(const nanobind::dict& options) {
    TaskOptions task;
    task.name = field(options, "name", task.name);
    task.output_name = field(options, "output_name", task.output_name);
    task.head = field(options, "head", task.head);
    task.score_threshold = field(options, "score_threshold", task.score_threshold);
    task.nms_overlap = field(options, "nms_overlap", task.nms_overlap);
    task.ignored_label = field(options, "ignored_label", task.ignored_label);
    task.first_label = field(options, "first_label", task.first_label);
    task.target_scale = field(options, "target_scale", task.target_scale);
    task.peak = field(options, "peak", task.peak);
    task.characters = field(options, "characters", task.characters);
    task.blank_last = field(options, "blank_last", task.blank_last);
    return task;
}

} // namespace lathe::python

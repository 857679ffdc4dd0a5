#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include "python/fields.hpp"

namespace lathe::python {

/// What lathe.sensitivity and lathe.tune share: the fields of a SensitivityRequest or a TuneRequest that say which
/// model is prepared and on which samples.
template <class Request>
void read_prepared(const nanobind::dict& options, Request& request) {
    request.model = field(options, "model", request.model);
    request.data = field(options, "data", request.data);
    request.calibrate = field(options, "calibrate", request.calibrate);
    request.ranges = field(options, "ranges", request.ranges);
    request.columns = field(options, "columns", request.columns);
    request.preprocess = field(options, "preprocess", request.preprocess);
    request.method = field(options, "method", request.method);
    request.calibrate_samples = field(options, "calibrate_samples", request.calibrate_samples);
    request.samples = field(options, "samples", request.samples);
    request.length = field(options, "length", request.length);
    request.threads = field(options, "threads", request.threads);
}

} // namespace lathe::python

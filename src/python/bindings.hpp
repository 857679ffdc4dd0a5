#pragma once

#include <nanobind/nanobind.h>

namespace lathe::python {

// One file a part: each adds its classes and functions to the module.
void add_analysis(nanobind::module_& module);
void add_autocast(nanobind::module_& module);
void add_batching(nanobind::module_& module);
void add_bench(nanobind::module_& module);
void add_deploy(nanobind::module_& module);
void add_engine(nanobind::module_& module);
void add_model(nanobind::module_& module);
void add_optimize(nanobind::module_& module);
void add_parts(nanobind::module_& module);
void add_report(nanobind::module_& module);
void add_tools(nanobind::module_& module);
void add_tune(nanobind::module_& module);

} // namespace lathe::python

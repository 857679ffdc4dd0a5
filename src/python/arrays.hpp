#pragma once

#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "lathe/engine_types.hpp"
#include "lathe/types.hpp"

namespace lathe::python {

/// Any array that lies in the host's memory; a copy only where it is not contiguous.
using HostArray = nanobind::ndarray<nanobind::ro, nanobind::device::cpu, nanobind::c_contig>;

/// A model's inputs as Python gives them, with what keeps their memory.
struct GivenInputs {
    std::vector<HostArray> arrays;
    std::vector<TensorView> views; ///< of the arrays' own memory
};

/// `inputs`: one array, a dict by name, or a sequence in the order of `expected`. Errors (as exceptions):
/// invalid_argument, naming what is wrong.
GivenInputs inputs_of(nanobind::handle inputs, const std::vector<IoInfo>& expected);

/// The same as tensors of their own, for data that outlives the call.
HostTensor tensor_of(nanobind::handle array, std::string name);

/// A NumPy array with a copy of the tensor. Errors: unsupported for a type that NumPy lacks.
nanobind::object to_numpy(const TensorView& tensor);

} // namespace lathe::python

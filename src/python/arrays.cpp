#include "python/arrays.hpp"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "python/errors.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

using Code = nb::dlpack::dtype_code;

struct Kind {
    DataType type;
    Code code;
    std::uint8_t bits;
};

constexpr Kind kinds[] = {
    {DataType::float32, Code::Float, 32},   {DataType::float16, Code::Float, 16}, {DataType::float64, Code::Float, 64},
    {DataType::bfloat16, Code::Bfloat, 16}, {DataType::int8, Code::Int, 8},       {DataType::int16, Code::Int, 16},
    {DataType::int32, Code::Int, 32},       {DataType::int64, Code::Int, 64},     {DataType::uint8, Code::UInt, 8},
    {DataType::uint16, Code::UInt, 16},     {DataType::uint32, Code::UInt, 32},   {DataType::uint64, Code::UInt, 64},
    {DataType::boolean, Code::Bool, 8},
};

DataType type_of(const nb::dlpack::dtype& dtype) {
    for (const Kind& kind : kinds) {
        if (dtype.code == static_cast<std::uint8_t>(kind.code) && dtype.bits == kind.bits && dtype.lanes == 1)
            return kind.type;
    }
    return DataType::undefined;
}

std::string kind_of(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

HostArray array_of(nb::handle object, const std::string& name) {
    HostArray array;
    if (nb::try_cast(object, array)) return array;
    throw Failure({ErrorCode::invalid_argument, "cannot read a " + kind_of(object) + " as an array in host memory",
                   name, "give a NumPy array, a CPU tensor of PyTorch, or another array with DLPack"});
}

TensorView view_of(const HostArray& array, std::string name) {
    TensorView view;
    view.name = std::move(name);
    view.type = type_of(array.dtype());
    if (view.type == DataType::undefined) {
        throw Failure({ErrorCode::unsupported, "no model reads arrays of this element type", view.name,
                       "convert it, for example with astype(numpy.float32)"});
    }
    for (std::size_t axis = 0; axis < array.ndim(); ++axis)
        view.shape.push_back(static_cast<std::int64_t>(array.shape(axis)));
    // Inputs are only read: a view has no other form for memory that may not be written to.
    auto* const data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(array.data()))); // NOLINT
    view.bytes = {data, array.nbytes()};
    return view;
}

} // namespace

GivenInputs inputs_of(nb::handle inputs, const std::vector<IoInfo>& expected) {
    GivenInputs given;
    const auto add = [&](nb::handle object, const std::string& name) {
        given.arrays.push_back(array_of(object, name));
        given.views.push_back(view_of(given.arrays.back(), name));
    };
    if (nb::isinstance<nb::dict>(inputs)) {
        for (const auto& [name, object] : nb::borrow<nb::dict>(inputs)) {
            if (!nb::isinstance<nb::str>(name)) throw nb::type_error("input names must be text");
            add(object, nb::cast<std::string>(name));
        }
    } else if (nb::isinstance<nb::list>(inputs) || nb::isinstance<nb::tuple>(inputs)) {
        std::size_t i = 0;
        for (const nb::handle object : inputs) {
            add(object, i < expected.size() ? expected[i].name : std::string());
            ++i;
        }
    } else {
        add(inputs, expected.empty() ? std::string() : expected.front().name);
    }
    return given;
}

HostTensor tensor_of(nb::handle array, std::string name) {
    const HostArray held = array_of(array, name);
    const TensorView view = view_of(held, name);
    HostTensor tensor;
    tensor.name = std::move(name);
    tensor.type = view.type;
    tensor.shape = view.shape;
    tensor.bytes.assign(view.bytes.begin(), view.bytes.end());
    return tensor;
}

nb::object to_numpy(const TensorView& tensor) {
    for (const Kind& kind : kinds) {
        if (kind.type != tensor.type || kind.type == DataType::bfloat16) continue;
        const std::size_t bytes = tensor.bytes.size();
        auto* const copy = new std::byte[bytes > 0 ? bytes : 1];
        std::memcpy(copy, tensor.bytes.data(), bytes);
        const nb::capsule owner(copy, [](void* memory) noexcept { delete[] static_cast<std::byte*>(memory); });
        std::vector<std::size_t> shape(tensor.shape.begin(), tensor.shape.end());
        const nb::dlpack::dtype dtype{static_cast<std::uint8_t>(kind.code), kind.bits, 1};
        return nb::cast(
            nb::ndarray<nb::numpy, nb::device::cpu>(copy, shape.size(), shape.data(), owner, nullptr, dtype));
    }
    throw Failure({ErrorCode::unsupported, "NumPy has no type for " + to_string(tensor.type), tensor.name,
                   "let the model end with a Cast to float32"});
}

} // namespace lathe::python

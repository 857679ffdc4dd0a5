#include "python/errors.hpp"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace lathe::python {

void register_errors() {
    nb::register_exception_translator([](const std::exception_ptr& pointer, void* /*payload*/) {
        try {
            std::rethrow_exception(pointer);
        } catch (const Failure& failure) {
            const Error& error = failure.error();
            const nb::object type = nb::module_::import_("lathe._errors").attr("Error");
            const nb::object raised = type(error.message, to_string(error.code), error.where, error.hint);
            PyErr_SetObject(type.ptr(), raised.ptr());
        }
    });
}

} // namespace lathe::python

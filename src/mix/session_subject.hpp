#pragma once

#include <memory>

#include "bench/subject.hpp"
#include "lathe/engine.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// A session of an engine that need not be in a file, to be timed in turns with others. Throughput is unsupported.
std::unique_ptr<Subject> make_session_subject(std::string name, Session session);

} // namespace lathe

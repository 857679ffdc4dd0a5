#pragma once

#include <functional>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "backends/cuda/device/cuda.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// A stream of its own, not waiting for the default one. Moves.
class Stream {
public:
    static Result<Stream> create();
    Stream() = default;
    Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
    Stream& operator=(Stream&& other) noexcept {
        std::swap(stream_, other.stream_);
        return *this;
    }
    ~Stream();
    cudaStream_t get() const { return stream_; }
    Result<void> synchronize(const std::string& what) const;

private:
    cudaStream_t stream_ = nullptr;
};

/// A mark in a stream; with `timing` the time between two can be asked. Moves.
class Event {
public:
    static Result<Event> create(bool timing);
    Event() = default;
    Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
    Event& operator=(Event&& other) noexcept {
        std::swap(event_, other.event_);
        return *this;
    }
    ~Event();
    cudaEvent_t get() const { return event_; }
    Result<void> record(const Stream& stream) const;
    Result<void> synchronize(const std::string& what) const;
    /// Milliseconds from `start` to this; both are done.
    Result<double> since(const Event& start) const;

private:
    cudaEvent_t event_ = nullptr;
};

/// Launches recorded once and repeated as one. Moves.
class Graph {
public:
    /// Records what `enqueue` puts into the stream (nothing runs).
    static Result<Graph> capture(const Stream& stream, const std::function<Result<void>()>& enqueue,
                                 const std::string& what);
    Graph() = default;
    Graph(Graph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
    Graph& operator=(Graph&& other) noexcept {
        std::swap(executable_, other.executable_);
        return *this;
    }
    ~Graph();
    explicit operator bool() const { return executable_ != nullptr; }
    Result<void> launch(const Stream& stream) const;

private:
    cudaGraphExec_t executable_ = nullptr;
};

} // namespace lathe::cuda

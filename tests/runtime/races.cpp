// Two threads write one number: a program in which ThreadSanitizer must find a race.
#include <thread>

namespace {
int number = 0; // NOLINT
}

int main() {
    std::thread other([] { ++number; });
    ++number;
    other.join();
    return number == 2 ? 0 : 1;
}

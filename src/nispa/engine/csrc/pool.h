// Threads: those of torch's OpenMP runtime where it is in reach, else our own, which sleep when idle and survive a
// fork.
#pragma once
#include <functional>

namespace nispa {

void set_threads(int count);

// How many threads a region that starts here would have; 1 inside a region.
int threads_here();

// Calls work(task) for every task in [0, tasks), shared among the threads; returns when all are done. The first
// tasks go to the same threads every time (their caches know the data), the rest to whoever is free: a task must own
// what it writes. Inside a region tasks run one after the other.
void parallel(int tasks, const std::function<void(int)>& work);

}  // namespace nispa

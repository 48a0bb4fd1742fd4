// Threads: those of torch's OpenMP runtime where it is in reach, else our own, which sleep when idle and survive a
// fork.
#pragma once
#include <functional>

namespace nispa {

void set_threads(int count);

// Calls work(task) for every task in [0, tasks), shared among the threads; returns when all are done. Which thread
// takes which task is open, so a task must own what it writes.
void parallel(int tasks, const std::function<void(int)>& work);

}  // namespace nispa

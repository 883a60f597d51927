// Package buffers is the memory for frames on their way into the server: reused, in a few
// sizes, and under one budget for the whole process. A peer's length field is held
// against the budget before memory is taken, so that many large frames at once turn into
// "try again later" and not into the end of the process.
package buffers

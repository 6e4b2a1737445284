// Package transcript shows a person what happened in a step: a block for every
// entry of its transcript, with the time, what was said and done, and what it
// cost.
//
// It only finds and draws. What a step leaves on record is read by package step;
// for programs, those lines are better than what is drawn here. Text that models
// and tools wrote reaches the terminal only through package progress, which
// leaves nothing that a terminal would obey, and is always indented, so that it
// cannot pass for a block of its own.
//
// Start with Print; entry.go is what a block looks like, and find.go lists the
// agents and steps that there are.
package transcript

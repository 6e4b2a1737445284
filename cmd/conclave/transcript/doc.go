// Package transcript implements `conclave transcript`, which prints the messages, tool
// calls and cost of a step, a block for every entry of its transcript; --json prints its
// lines unchanged.
//
// Text of models and tools is printed without control sequences, and always indented, so
// that it cannot imitate a block. Start with Command; print.go lays out the blocks.
package transcript

// Package transcript implements `conclave transcript`, which prints the messages, tool
// calls and cost of a step, with a block for every entry of its transcript. With --json
// it prints the transcript's lines unchanged.
//
// Text of models and tools is printed without control sequences and always indented, so
// that it cannot imitate a block. Start with Command; print.go formats the blocks.
package transcript

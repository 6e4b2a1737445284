// Package scratch makes temporary directories that outlive no process for long: those of a killed
// process are removed by the next one that makes any, as its lock on a file beside them is free. Start
// with Open.
package scratch

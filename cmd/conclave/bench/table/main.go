//go:build bench

package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "making a table of the benchmarks:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	measured, err := read(in)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tTARGET\tCOMMAND")
	for _, r := range rows {
		v, ok := r.value(measured)
		if !ok {
			continue // others were chosen
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.what, r.shown.of(v), r.verdict(v), r.again())
	}
	return w.Flush()
}

//go:build bench

package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// series is what one benchmark measured in one unit.
type series struct{ benchmark, unit string }

// processors is the suffix that go test gives to names.
var processors = regexp.MustCompile(`-\d+$`)

// read collects all measurements. Lines that are no results, such as those of
// packages without benchmarks, are passed over.
func read(in io.Reader) (map[series][]float64, error) {
	measured := map[series][]float64{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		for pair := range slices.Chunk(fields[2:], 2) {
			value, err := strconv.ParseFloat(pair[0], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			key := series{name, pair[1]}
			measured[key] = append(measured[key], value)
		}
	}
	return measured, lines.Err()
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

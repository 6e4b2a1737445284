//go:build bench

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	t.Parallel()
	const measured = `goos: linux
pkg: conclave/cmd/conclave/bench
BenchmarkStart/data=new-2   	 1	1185327242 ns/op	 1.4 s-to-first-call
BenchmarkStart/data=new-2   	 1	9185327242 ns/op	 9.1 s-to-first-call
BenchmarkStart/data=new-2   	 1	1185327242 ns/op	 1.2 s-to-first-call
BenchmarkSession/model=2s-2 	 1	8363438091 ns/op	 160.2 added-ms/step	 2560 history-B/step
BenchmarkSandboxStart/none-2     	 1	 1200000 ns/op
BenchmarkSandboxStart/full-2     	 1	 9700000 ns/op
BenchmarkOfTomorrow-2       	 1	 799084653 ns/op
PASS
?   	conclave/engine	[no test files]
`
	var out bytes.Buffer
	require.NoError(t, run(strings.NewReader(measured), &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 5, "a header, and a row for what was measured")
	require.Regexp(t, `new data directory +1.40 s +≤ 2.00 s +make bench BENCH=Start/data=new$`, lines[1], "the median")
	require.Regexp(t, `2 s models +160 ms +≤ 150 ms, missed +make`, lines[2])
	require.Regexp(t, `2.5 KiB +≤ 6.0 KiB +make`, lines[3])

	require.Regexp(t, `beyond a plain one +8.50 ms +≤ 10.00 ms +make bench BENCH=SandboxStart$`, lines[4], "the difference")

	require.Error(t, run(strings.NewReader("BenchmarkStart 1 fast ns/op"), &out))
}

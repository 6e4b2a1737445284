//go:build bench

package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

// BenchmarkStep runs single steps in this process, on the store of an embedded stack,
// with a model without delay. A step with files copies another answer's into its
// workspace, and changes some of them.
func BenchmarkStep(b *testing.B) {
	s := newStack(b, newModelServer(b, alone.minds(0)))
	d := newDesk(b, s)

	unchanged := func() []llm.Message { return replies(looked, copyAll()) }
	b.Run("files=0", func(b *testing.B) {
		d.measure(b, 0, targets{requests: 10}, d.cached, func() []llm.Message { return replies(looked, toolCall("list_files", map[string]string{})) })
	})
	b.Run("files=1000/changed=0/cache=warm", func(b *testing.B) {
		d.measure(b, files, targets{ms: 300, requests: 25}, d.cached, unchanged)
	})
	b.Run("files=1000/changed=10/cache=warm", func(b *testing.B) {
		d.measure(b, files, targets{requests: 50}, d.cached, func() []llm.Message { return replies(looked, copyAll(), d.edit(10)) })
	})
	b.Run("files=1000/changed=0/cache=cold", func(b *testing.B) {
		d.measure(b, files, targets{requests: 2000}, func() artifact.Store { return d.cache(b) }, unchanged)
	})
}

// looked is an answer different from the one shown, because an equal one would be
// rejected.
const looked = "There is nothing to add."

// targets are those of a step; 0 for none.
type targets struct{ ms, requests float64 }

// measure runs steps that end with the given number of files on the given store. If there are
// files, the prompt shows the answer that has them.
func (d *desk) measure(b *testing.B, files int, most targets, store func() artifact.Store, replies func() []llm.Message) {
	b.Helper()
	var took, all, up, down samples
	requests := map[string]*samples{"PUT": {}, "HEAD": {}, "GET": {}, "COPY": {}, "DELETE": {}}
	for b.Loop() {
		on, said := store(), replies()
		before, began := d.proxy.traffic(), time.Now()
		result := d.step(b, d.launch(files > 0), on, said, nil)
		lasted := time.Since(began)
		passed := d.proxy.traffic().since(before)
		took.add(float64(lasted.Microseconds()) / 1000)
		require.Equal(b, files, result.Files)
		all.add(float64(passed.all()))
		up.add(float64(passed.up))
		down.add(float64(passed.down))
		for kind, n := range requests {
			n.add(float64(passed.requests[kind]))
		}
	}
	if most.ms > 0 {
		took.report(b, "ms/step", most.ms)
	} else {
		b.ReportMetric(took.median(), "ms/step")
	}
	all.report(b, "requests/step", most.requests)
	b.ReportMetric(up.median(), "up-B/step")
	b.ReportMetric(down.median(), "down-B/step")
	for kind, n := range requests {
		b.ReportMetric(n.median(), kind+"/step")
	}
	b.ReportMetric(0, "ns/op")
}

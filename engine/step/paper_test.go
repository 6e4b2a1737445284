package step_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/step"
)

// An evaluation is shown as read-only files, which are not part of an answer.
func TestPapers_areReadOnly(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Shown.Papers = []step.Paper{
		{Dir: "evaluator", Name: "critique_packet.md", Text: "It lacks a source."},
		{Dir: "evaluator", Name: "next_tasks.json", Text: "{}"},
		{Dir: "memory/short_term", Name: "verification_latest.md", Text: "Count again."},
	}
	result, err := b.run(read("evaluator/critique_packet.md"), writeCall("evaluator/mine.md", "x"), writeCall("mine.md", "x"),
		read("memory/short_term/verification_latest.md"), writeCall("memory/short_term/verification_latest.md", "x"),
		writeCall("memory/long_term/a.md", "x"), done("Two."))
	require.NoError(t, err)
	outputs := results(r.learned)
	require.Equal(t, "It lacks a source.", outputs[0])
	require.Contains(t, outputs[1], "evaluator/mine.md is read-only: evaluator/ only shows files")
	require.Equal(t, "Count again.", outputs[3])
	require.Contains(t, outputs[4], "is read-only")
	require.Equal(t, []string{"memory/long_term/a.md", "mine.md"}, manifest(t, b, result))
}

// Without an evaluation, evaluator/ is an ordinary directory.
func TestPapers_none(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	result, err := b.run(writeCall("evaluator/mine.md", "x"), done("Two."))
	require.NoError(t, err)
	require.Equal(t, []string{"evaluator/mine.md"}, manifest(t, b, result))
}

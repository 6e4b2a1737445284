package member_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// keptJournal is a journal that outlives attempts, and takes so many entries.
type keptJournal struct {
	entries []loop.Entry
	room    int
}

var errFull = errors.New("the journal is full")

func (k *keptJournal) Append(_ context.Context, e loop.Entry) error {
	if len(k.entries) >= k.room {
		return errFull
	}
	k.entries = append(k.entries, e)
	return nil
}

func (k *keptJournal) Entries(context.Context) ([]loop.Entry, error) { return k.entries, nil }

// An attempt that ends anywhere is carried on by the next one from what the
// journal kept: no reply in it is asked for again.
func TestJournalCarriesAStepOn(t *testing.T) {
	t.Parallel()
	replies := []llm.Message{
		call("list_files", map[string]string{}),
		call("list_files", map[string]string{"path": "."}),
		answer("Done."),
	}
	const entries = 6 // opening, then reply and results of each
	for room := 1; room <= entries; room++ {
		b := newBench(t)
		spec, err := b.member(first("agent_a", 1), "run-l1").Spec(t.Context(), b.store)
		require.NoError(t, err)
		kept := &keptJournal{room: room}

		ports := b.ports(&script{replies: replies})
		ports.Journal = kept
		_, err = step.Run(t.Context(), ports, spec)
		require.ErrorIs(t, err, errFull, "room for %d", room)
		answered := 0
		for _, e := range kept.entries {
			if e.Kind == loop.Reply {
				answered++
			}
		}

		kept.room = 100
		model := &script{replies: replies[answered:]}
		ports = b.ports(model)
		ports.Journal = kept
		r, err := step.Run(t.Context(), ports, spec)
		require.NoError(t, err, "room for %d", room)
		require.Equal(t, 1, r.Step)
		require.Len(t, model.requests, len(replies)-answered, "room for %d", room)
	}
}

package activities

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/step"
)

func newStore(t *testing.T) *artifact.Dir {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// final requires a final error of a type, and returns its message.
func final(t *testing.T, err error, kind string) string {
	t.Helper()
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, kind, refused.Type())
	require.True(t, refused.NonRetryable())
	return refused.Message()
}

func owned(workflow, firstRun string) artifact.Session {
	return artifact.Session{Owner: artifact.Owner{WorkflowID: workflow, FirstRunID: firstRun}}
}

// A directory belongs to the first run of a workflow and to all that follow it.
func TestClaim(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	mine := owned("w1", "r1")
	made, created, err := Claim(t.Context(), store, "sessions/s1/session.json", mine, "the session s1", "choose another ID")
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, mine, made)
	made, created, err = Claim(t.Context(), store, "sessions/s1/session.json", mine, "the session s1", "")
	require.NoError(t, err)
	require.False(t, created, "an attempt of the same activity")
	require.Equal(t, mine, made)
	for _, other := range []artifact.Session{owned("w1", "r2"), owned("w2", "r1")} {
		_, _, err = Claim(t.Context(), store, "sessions/s1/session.json", other, "the session s1", "choose another ID")
		require.Equal(t, "the session s1 belongs to workflow w1, first run r1: choose another ID", final(t, err, SessionTaken))
	}
	require.NoError(t, store.Put(t.Context(), "sessions/s2/session.json", strings.NewReader("{")))
	_, _, err = Claim(t.Context(), store, "sessions/s2/session.json", mine, "the session s2", "")
	require.ErrorContains(t, err, "claim the session s2")
}

func TestOwned(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	const key = "sessions/s1/session.json"
	_, err := Owned[artifact.Session](t.Context(), store, key, "w1", "session s1", "a query")
	require.Equal(t, "there is no session s1 to go on with: give a query instead of resume", final(t, err, ConfigInvalid))
	require.NoError(t, artifact.CreateJSON(t.Context(), store, key, owned("w1", "r1")))
	claim, err := Owned[artifact.Session](t.Context(), store, key, "w1", "session s1", "a query")
	require.NoError(t, err)
	require.Equal(t, "r1", claim.FirstRunID)
	_, err = Owned[artifact.Session](t.Context(), store, key, "w2", "session s1", "a query")
	require.Equal(t, "session s1 belongs to workflow w1: resume it under that ID", final(t, err, SessionTaken))
}

func TestRefuseDeleted(t *testing.T) {
	t.Parallel()
	store, layout := newStore(t), artifact.InBucket("s1")
	require.NoError(t, RefuseDeleted(t.Context(), store, layout, "session s1"))
	require.NoError(t, CreateOnce(t.Context(), store, layout.File(artifact.Deleted), map[string]string{}))
	err := RefuseDeleted(t.Context(), store, layout, "session s1")
	require.Equal(t, "session s1 is being deleted: finish that with `conclave delete`, or choose another ID", final(t, err, SessionTaken))
}

// A file that is written once keeps its first content.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	require.NoError(t, CreateOnce(t.Context(), store, "a.json", map[string]int{"n": 1}))
	require.NoError(t, CreateOnce(t.Context(), store, "a.json", map[string]int{"n": 2}))
	got, err := artifact.ReadJSON[map[string]int](t.Context(), store, "a.json")
	require.NoError(t, err)
	require.Equal(t, 1, got["n"])
}

func TestWriteMessage(t *testing.T) {
	t.Parallel()
	store, layout := newStore(t), artifact.InBucket("s1")
	at := time.Date(2026, 11, 21, 16, 30, 12, 345_678_901, time.FixedZone("", 3600))
	require.NoError(t, WriteMessage(t.Context(), store, layout, step.Message{Number: 2, Text: "Look left."}, at))
	got, err := artifact.ReadJSON[step.Message](t.Context(), store, "sessions/s1/messages/002.json")
	require.NoError(t, err)
	require.Equal(t, "Look left.", got.Text)
	require.True(t, got.SaidAt.Equal(artifact.Timestamp(at)))
	require.Equal(t, time.UTC, got.SaidAt.Location())
}

// An attempt after a crash, or a reset workflow, replaces the lines from its first number on.
func TestAppendEvents(t *testing.T) {
	t.Parallel()
	type event struct {
		Seq  int    `json:"seq"`
		Text string `json:"text"`
	}
	lines := func(numbers ...int) string {
		all := ""
		for _, n := range numbers {
			line, _ := json.Marshal(event{n, "new"})
			all += string(line) + "\n"
		}
		return all
	}
	const one, two, three = `{"seq":1}` + "\n", `{"seq":2}` + "\n", `{"seq":3}` + "\n"
	const wrong = `{"seq":1,"text":"known"}` + "\n"
	for name, tt := range map[string]struct {
		old    string
		events []event
		want   string
		known  string
	}{
		"the first":              {old: "", events: []event{{1, "new"}, {2, "new"}}, want: lines(1, 2)},
		"the next":               {old: one + two, events: []event{{3, "new"}}, want: one + two + lines(3)},
		"a second attempt":       {old: one + two + three, events: []event{{2, "new"}, {3, "new"}}, want: one + lines(2, 3)},
		"a reset to the begin":   {old: one + two, events: []event{{1, "new"}}, want: lines(1)},
		"a line that was cut":    {old: one + `{"seq":2`, events: []event{{2, "new"}}, want: one + lines(2)},
		"a damaged line":         {old: one + "hello\n" + three, events: []event{{4, "new"}}, want: one + lines(4)},
		"nothing to append":      {old: one + two, events: nil, want: one + two},
		"numbers with a gap":     {old: one, events: []event{{7, "new"}}, want: one + lines(7)},
		"known lines":            {old: one, events: []event{{2, "new"}}, want: wrong + lines(2), known: wrong},
		"known and later lines":  {old: one + two, events: []event{{2, "new"}}, want: wrong + lines(2), known: wrong + two},
		"too few known lines":    {old: one + two, events: []event{{3, "new"}}, want: one + two + lines(3), known: wrong},
		"a line without newline": {old: one + `{"seq":2}`, events: []event{{2, "new"}}, want: one + lines(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, layout := newStore(t), artifact.InBucket("s1")
			if tt.old != "" {
				require.NoError(t, store.Put(t.Context(), layout.File("events.jsonl"), strings.NewReader(tt.old)))
			}
			written, err := AppendEvents(t.Context(), store, layout, []byte(tt.known), tt.events, func(e event) int { return e.Seq })
			require.NoError(t, err)
			if len(tt.events) > 0 {
				require.Equal(t, tt.want, string(written))
			}
			got, err := store.Get(t.Context(), layout.File("events.jsonl"))
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
}

// The newest state of the present format counts. Damaged ones are skipped.
func TestLastState(t *testing.T) {
	t.Parallel()
	type saved struct{ N int }
	store, layout := newStore(t), artifact.InBucket("s1")
	last, others, err := LastState[saved](t.Context(), store, layout, "r0")
	require.NoError(t, err)
	require.Equal(t, SavedState[saved]{Run: "r0"}, last)
	require.Empty(t, others)
	for key, body := range map[string]string{
		"r1/state.json": `{"format":3,"run":"r1","at":"2026-01-01T00:00:01Z","saved":{"n":1}}`, "r2/state.json": `{"n":`,
		"r3/other.json": `{"format":3,"run":"r3"}`, "r4/state.json": `{"format":3,"run":"r4","at":"2026-01-01T00:00:04Z","saved":{"n":4}}`,
		"r5/state.json": `{"format":2,"run":"r5","at":"2026-01-01T00:00:05Z","core":{}}`,
	} {
		require.NoError(t, store.Put(t.Context(), layout.File("runs/"+key), strings.NewReader(body)))
	}
	last, others, err = LastState[saved](t.Context(), store, layout, "r0")
	require.NoError(t, err)
	require.Equal(t, "r4", last.Run)
	require.Equal(t, &saved{4}, last.Saved)
	require.Equal(t, map[string]bool{"r0": true, "r1": true, "r5": true}, others)
	require.NoError(t, store.Close())
	_, _, err = LastState[saved](t.Context(), store, layout, "r0")
	require.ErrorContains(t, err, "look for saved states")
}

// A full disk, in whatever it was, leaves the configuration valid.
func TestInvalid_notTheMachine(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("registering a configuration: %w", &os.PathError{Op: "write", Path: "/teams/.team-1", Err: syscall.ENOSPC})
	require.Equal(t, full, Invalid(full))
	final(t, Invalid(&os.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}), ConfigInvalid)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	require.Equal(t, "no such team", final(t, Invalid(errors.New("no such team")), ConfigInvalid))
	require.Equal(t, "s1 is taken", final(t, Taken("%s is taken", "s1"), SessionTaken))
	require.Equal(t, "session s1 cannot go on: it has decided", final(t, CannotGoOn("session s1", errors.New("it has decided")), Unresumable))
	require.Equal(t, "run 2 goes on", final(t, Superseded("run %d goes on", 2), "Superseded"))
	cause := errors.New("no key")
	lack := error(&LackError{Type: MissingKey, Err: cause})
	require.ErrorIs(t, lack, cause)
	require.EqualError(t, lack, "no key")
	require.True(t, Lacks(errors.Join(errors.New("x"), lack), MissingKey))
	require.False(t, Lacks(lack, NoServer))
	require.False(t, Lacks(cause, MissingKey))
}

// A team is named or defined, never both.
func TestTeams_Resolve(t *testing.T) {
	t.Parallel()
	named := config.Default()
	named.Agents = named.Agents[:1]
	teams := Teams{Named: map[string]config.Team{"solo": named, DefaultTeam: config.Default()}}
	for name, tt := range map[string]struct {
		name, definition string
		agents           int
		want             string
	}{
		"by default":       {"", "", 3, ""},
		"by null":          {"", "null", 3, ""},
		"by name":          {"solo", "", 1, ""},
		"by definition":    {"", `{"agents":[{"id":"a","backend":{"model":"m"}},{"id":"b","backend":{"model":"m"}}]}`, 2, ""},
		"by both":          {"solo", `{"agents":[]}`, 0, "the input has both a team and a config: give one"},
		"by another name":  {"nobody", "", 0, `this worker has no team "nobody"; it has: default, solo`},
		"an address in it": {"", `{"agents":[{"id":"a","backend":{"model":"m","base_url":"http://127.0.0.1:1"}}]}`, 0, "base_url"},
		"a hash":           {strings.Repeat("a", 64), "", 0, "this worker has no team"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			team, err := teams.Resolve(tt.name, json.RawMessage(tt.definition))
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.Len(t, team.Agents, tt.agents)
		})
	}
}

// A session keeps its team when the name's file changes.
func TestTeams_registersNamedTeams(t *testing.T) {
	t.Parallel()
	teams := Teams{Dir: t.TempDir(), Named: map[string]config.Team{"solo": config.Default()}}
	teams.Dir = t.TempDir()
	team, err := teams.Resolve("solo", nil)
	require.NoError(t, err)
	delete(teams.Named, "solo")
	again, err := teams.ByName(team.Hash())
	require.NoError(t, err)
	require.Equal(t, team.Hash(), again.Hash())
	_, err = teams.ByName(strings.Repeat("a", 64))
	require.ErrorContains(t, err, "team aaaaaaaaaaaa… is not registered in "+teams.Dir)
}

func TestTeams_Pipeline(t *testing.T) {
	t.Parallel()
	teams := Teams{Dir: t.TempDir()}
	p, _, err := config.ParsePipeline("p.json", []byte(`{"start":"a","agents":[{"id":"agent_a","backend":{"model":"m"}}],"steps":[{"name":"a","agent":"agent_a"}]}`), config.Local)
	require.NoError(t, err)
	name, err := teams.Register(p)
	require.NoError(t, err)
	found, err := teams.Pipeline(name)
	require.NoError(t, err)
	require.Equal(t, p.Hash(), found.Hash())
	for _, other := range []string{"", "review", "../" + name} {
		_, err := teams.Pipeline(other)
		require.ErrorContains(t, err, "send it as config", other)
	}
	_, err = Teams{}.Pipeline(name)
	require.ErrorContains(t, err, "this worker has no pipeline")

	store, layout := newStore(t), artifact.InPipeline("p1")
	canonical, err := p.Canonical()
	require.NoError(t, err)
	require.NoError(t, store.Put(t.Context(), layout.File("config.json"), strings.NewReader(string(canonical))))
	found, err = Teams{}.PipelineByHash(t.Context(), store, layout, p.Hash())
	require.NoError(t, err)
	require.Equal(t, p.Hash(), found.Hash())
	_, err = Teams{}.PipelineByHash(t.Context(), store, layout, strings.Repeat("b", 64))
	require.Contains(t, final(t, err, ConfigInvalid), "but the session or run began with bbbbbbbbbbbb…")
	_, err = Teams{}.PipelineByHash(t.Context(), store, artifact.InPipeline("p2"), p.Hash())
	require.ErrorContains(t, err, "read the stored configuration")
}

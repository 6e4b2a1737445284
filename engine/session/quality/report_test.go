package quality

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

// reporting returns a step whose workspace has two files.
func reporting() Policy {
	p := pair()
	p.Read = func(path string) ([]byte, error) {
		switch path {
		case "notes/gaps.md":
			return []byte(strings.Repeat("The sum is wrong. ", 10)), nil
		case "short.md":
			return []byte("  fine\n"), nil
		}
		return nil, errors.New("no such file")
	}
	return p
}

func withReport(path string) string { return `{"scores": ` + good + `, "report_path": "` + path + `"}` }

func TestReport_isRead(t *testing.T) {
	t.Parallel()
	packet := reporting()
	packet.Packet, packet.PacketText = "evaluator/critique_packet.md", strings.Repeat("x", leastReport)
	bare := packet
	bare.Read = nil
	for name, c := range map[string]struct {
		policy    Policy
		arguments string
		code      string // empty if it is accepted
	}{
		"none is needed":                   {reporting(), scores(good), ""},
		"a file":                           {reporting(), withReport("notes/gaps.md"), ""},
		"a file, in other words":           {reporting(), withReport("./notes//gaps.md"), ""},
		"no such file":                     {reporting(), withReport("gone.md"), reportMissing},
		"too short":                        {reporting(), withReport("short.md"), reportEmpty},
		"absolute":                         {reporting(), withReport("/etc/passwd"), reportOutside},
		"outside":                          {reporting(), withReport("notes/../../gaps.md"), reportOutside},
		"another's packet":                 {reporting(), withReport("evaluator/critique_packet.md"), reportMissing},
		"without a workspace":              {pair(), withReport("notes/gaps.md"), reportMissing},
		"the packet":                       {packet, withReport("evaluator/critique_packet.md"), ""},
		"the packet, without a workspace":  {bare, withReport("evaluator/critique_packet.md"), ""},
		"a file in place of the packet":    {packet, withReport("notes/gaps.md"), ""},
		"the packet is required":           {packet, scores(good), reportRequired},
		"faulty scores are reported first": {packet, scores(`{"agent1.1": {"E1": 9}}`), incompleteAgentCriteria},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(c.policy).judgeChecklist(c.arguments)
			require.Equal(t, c.code, r.ErrorCode, r.Explanation)
			require.Equal(t, c.code != "", r.RequiresResubmission)
			require.Equal(t, c.code == "", r.Action != "")
		})
	}
}

// Following the remedy for a missing report leads to an accepted report.
func TestReport_remedy(t *testing.T) {
	t.Parallel()
	packet := reporting()
	packet.Packet = "evaluator/critique_packet.md"
	bare := packet
	bare.Read = nil
	for _, p := range []Policy{packet, bare} {
		require.Contains(t, New(p).judgeChecklist(withReport("gone.md")).Explanation, "give evaluator/critique_packet.md.")
	}
	require.Contains(t, New(reporting()).judgeChecklist(withReport("gone.md")).Explanation, "or leave report_path out.")
	require.Contains(t, New(pair()).judgeChecklist(withReport("gone.md")).Explanation, ": leave report_path out.")
}

// A first answer does not have to report gaps.
func TestReport_ofADraft(t *testing.T) {
	t.Parallel()
	r := New(first()).judgeChecklist(`{"scores": {"E1": 5, "E2": 5}, "report_path": "gone.md"}`)
	require.Equal(t, accepted, r.Status)
}

func TestInstructions_nameThePacket(t *testing.T) {
	t.Parallel()
	p := reporting()
	require.NotContains(t, p.Instructions(), "report_path")
	p.Packet = "evaluator/critique_packet.md"
	require.Contains(t, p.Instructions(), "with the findings of evaluator/critique_packet.md, which is the report_path")
	require.Contains(t, string(p.Tools()[0].Parameters), "evaluator/critique_packet.md")
}

// Seed 001: "diminishing returns", across the steps of an agent.
func TestPlateau_acrossSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		past []Scores
		want []string
	}{
		"a first checklist":  {nil, nil},
		"a second checklist": {[]Scores{{"E1": 9, "E2": 4}}, nil},
		"flat":               {[]Scores{{"E1": 9, "E2": 4}, {"E1": 9, "E2": 3}}, []string{"E2"}},
		"a gain":             {[]Scores{{"E1": 9, "E2": 4}, {"E1": 9, "E2": 2}}, nil},
		"other criteria":     {[]Scores{{"E3": 4}, {"E3": 4}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pair()
			p.Past = c.past
			s := New(p)
			r := submit(t, s, poor)
			var got []string
			for _, plateau := range r.PlateauedCriteria {
				got = append(got, plateau.ID)
				require.Len(t, plateau.ScoreHistory, 3)
			}
			require.Equal(t, c.want, got)
			require.Equal(t, []Scores{{"E1": 9, "E2": 4}}, s.Accepted())
		})
	}
}

func TestList_hasTheAnchorsInOrder(t *testing.T) {
	t.Parallel()
	list := List(config.Criteria{{Text: "It runs.", Category: "primary", VerifyBy: "Run it.", ScoreAnchors: map[string]any{"10": "always", "3": "never"}}})
	require.Equal(t, "- E1 [primary]: It runs.\n  To verify: Run it.\n  A score of 3: never\n  A score of 10: always\n", list)
}

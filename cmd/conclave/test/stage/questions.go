package stage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/engine/step"
)

// Question is a question about a session, with the words that its answer must contain
// according to the ledger and the commits.
type Question struct {
	Asked string
	Where string   // the part of the page that answers it: an ID, or the name of a fact
	Wants []string // expected answers; without any, the page has no such fact
	Never []string // words that the part lacks if nothing of the kind happened
}

// Questions returns ten questions that a reader of the page may have.
func (p *Play) Questions() []Question {
	p.t.Helper()
	return []Question{
		{"who won?", "decision", p.winnerWords(), nil},
		{"why?", "why", p.reasonWords(), nil},
		{"who changed their mind, after what?", "why", p.changedVotes(), []string{"gave up its own", "moved from", "went back"}},
		{"which vote was stale?", "Stale votes", p.staleVotes(), nil},
		{"what did the dissent say?", "why", p.dissentWords(), nil},
		{"what did it cost?", "cost", []string{fmt.Sprintf("$%.4f", p.State.Cost().AtLeastUSD())}, nil},
		{"which step was slowest?", "steps", p.slowestTime(), []string{"was slowest"}},
		{"what did a person say?", "People said", p.saidTexts(), nil},
		{"what was rejected?", "Rejected", p.rejectionCodes(), nil},
		{"which files changed?", "decision", p.changedFiles(), []string{" files "}},
	}
}

func (p *Play) winnerWords() []string {
	d := p.decision
	if d.Winner == "" {
		return []string{"No decision"}
	}
	final := d.WinnerLabel
	if d.Final != nil {
		final = d.Final.Label
	}
	return []string{final, d.Winner}
}

func (p *Play) reasonWords() []string {
	d := p.decision
	words := map[coordination.Status]string{
		coordination.Consensus: "won by consensus", coordination.Plurality: "without a majority", coordination.Presented: "does not vote",
		coordination.Finished: "a person asked for a decision", coordination.Timeout: "time ran out", coordination.OverSpent: "budget ran out",
		coordination.Undecided: "too little support", coordination.Limit: "used up their steps", coordination.Cancelled: "a person cancelled", coordination.FailedAll: "Nothing was decided",
	}
	wants := []string{words[d.Status]}
	switch d.DecidedBy() {
	case coordination.ByAgreement:
		wants = []string{"gave an equal first answer"}
	case coordination.ByQuorum:
		wants = append([]string{"consensus of a quorum"}, d.Cut...)
	case coordination.ByChecks:
		wants = []string{"won by its checks"}
	}
	if len(d.Tied) > 1 {
		wants = append(wants, "It was a tie")
	}
	for _, a := range p.State.View().Agents {
		if a.Error != nil {
			wants = append(wants, a.ID+" failed and did not vote", a.Error.Type)
		}
	}
	return wants
}

// changedVotes follows the ledger, where a presented answer does not replace the vote before it.
func (p *Play) changedVotes() []string {
	var wants []string
	before := map[string]session.Entry{}
	for _, e := range p.Ledger {
		last, known := before[e.Agent]
		own := known && last.Action == coordination.NewAnswer
		switch {
		case e.Action == coordination.Vote && own && e.Target != e.Agent:
			wants = append(wants, e.Agent, "gave up its own "+last.Label)
		case e.Action == coordination.Vote && known && !own && e.Target != last.Target && e.Target == e.Agent:
			wants = append(wants, e.Agent, fmt.Sprintf("went back from %s to its own %s", last.TargetLabel, e.TargetLabel))
		case e.Action == coordination.Vote && known && !own && e.Target != last.Target:
			wants = append(wants, e.Agent, "moved from "+last.TargetLabel)
		}
		if e.Action == coordination.Vote || e.Action == coordination.NewAnswer && !coordination.IsFinal(e.Label) {
			before[e.Agent] = e
		}
	}
	return wants
}

// staleVotes returns the stale votes: before the agent's next action there was an answer of another
// agent that the vote had not seen, or a new message.
func (p *Play) staleVotes() []string {
	var wants []string
	for i, vote := range p.Ledger {
		if vote.Action != coordination.Vote {
			continue
		}
		seen := map[string]int{}
		for _, s := range vote.Seen {
			seen[s.Agent] = s.Step
		}
		for j, e := range p.Ledger {
			if j <= i && e.Action == coordination.Say {
				continue
			}
			if j > i && e.Agent == vote.Agent && e.Action != coordination.Say {
				break
			}
			if e.Action == coordination.NewAnswer && e.Agent != vote.Agent && e.Step > seen[e.Agent] && !coordination.IsFinal(e.Label) {
				wants = append(wants, fmt.Sprintf("%s's vote for %s (step %03d)", vote.Agent, vote.TargetLabel, vote.Step))
				break
			}
			if e.Action == coordination.Say && (e.Agent == "" || e.Agent == vote.Agent) {
				wants = append(wants, fmt.Sprintf("%s's vote for %s (step %03d)", vote.Agent, vote.TargetLabel, vote.Step))
				break
			}
		}
	}
	return wants
}

func (p *Play) dissentWords() []string {
	var wants []string
	for _, a := range p.State.View().Agents {
		if p.decision.Winner != "" && a.Vote != nil && a.Vote.Target != p.decision.Winner {
			wants = append(wants, a.ID, a.Vote.TargetLabel, a.Vote.Reason)
		}
	}
	return wants
}

func (p *Play) slowestTime() []string {
	var slowest string
	var longest time.Duration = -1
	for key, err := range p.Store.List(p.t.Context(), "agents/") {
		require.NoError(p.t, err)
		dir, found := strings.CutSuffix(key, "transcript.jsonl")
		if !found || strings.HasSuffix(dir, "/evaluator/") {
			continue
		}
		claim, err := artifact.ReadJSON[artifact.Claim](p.t.Context(), p.Store, dir+"step.json")
		require.NoError(p.t, err)
		took := p.ends[dir].Sub(claim.StartedAt)
		if took > longest {
			slowest, longest = fmt.Sprintf("%.1f s", took.Seconds()), took
			if took >= 10*time.Second {
				slowest = fmt.Sprintf("%.0f s", took.Seconds())
			}
		}
	}
	if slowest == "" {
		return nil
	}
	return []string{slowest} // several steps may have taken as long
}

func (p *Play) saidTexts() []string {
	var wants []string
	for _, e := range p.Ledger {
		if e.Action == coordination.Say {
			wants = append(wants, e.Text)
		}
	}
	return wants
}

func (p *Play) rejectionCodes() []string {
	var wants []string
	for key, err := range p.Store.List(p.t.Context(), "agents/") {
		require.NoError(p.t, err)
		dir, found := strings.CutSuffix(key, "transcript.jsonl")
		if !found {
			continue
		}
		t, err := step.ReadTranscript(p.t.Context(), p.Store, p.Layout, dir)
		require.NoError(p.t, err)
		for _, l := range t.Lines {
			if l.Kind == loop.Rejection {
				wants = append(wants, l.Reason)
			}
		}
	}
	return wants
}

func (p *Play) changedFiles() []string {
	d := p.decision
	if d.Winner == "" {
		return nil
	}
	at := coordination.Shown{Agent: d.Winner, Step: d.WinnerStep}
	if d.Final != nil {
		at = *d.Final
	}
	commit, err := artifact.ReadJSON[artifact.Commit](p.t.Context(), p.Store, p.Layout.Step(at.Agent, at.Step, "action.json"))
	require.NoError(p.t, err)
	m, err := artifact.LoadManifest(p.t.Context(), p.Store, p.Layout, commit.Manifest)
	require.NoError(p.t, err)
	var wants []string
	for _, f := range m.Files {
		wants = append(wants, f.Path)
	}
	slices.Sort(wants)
	return wants
}

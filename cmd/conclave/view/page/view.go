package page

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// view has the data of the templates.
type view struct {
	*record.Session
	Live     *Live
	Now      time.Time
	Elapsed  string
	Final    *answer // nil without one
	How      string  // the decision was found
	Why      []string
	Facts    []fact
	Board    []row
	Story    story
	Compare  compare
	Judged   judged
	Data     dataTable
	Answers  []answer
	Steps    []stepView
	Cost     cost
	Glossary []term
	Activity []cli.Activity
	Terse    bool // shortened for want of room
}

// row is an agent on the board.
type row struct {
	*record.Agent
	Class  string
	Winner bool
	State  string
	Doing  string
	Vote   *record.Step // vote that stands; nil without one
}

// stepView is a step with its transcript.
type stepView struct {
	*record.Step
	ID, Class, Words, Took string
	Source                 string // where a live page loads the transcript from
	Path                   string // path of the transcript
	Entries                []entry
	LeftOut                bool          // the transcript is left out for want of room
	Said                   string        // the end of the reply under way
	Drawn                  template.HTML // HTML of an earlier drawing
}

// Live is the state of a page that a server keeps up to date.
type Live struct {
	Base     string // path of the page, such as /sessions/s1
	Token    string // against forged requests; empty for a page without controls
	Temporal string // address of the workflow in Temporal's page; empty if it is unknown
	Since    string // the version from which the reader follows the page
	Notice   string // the outcome of the reader's last request
	Failed   bool   // whether that request failed
	Running  []cli.Activity
}

// saidBy returns the end of the reply that a running step is receiving.
func (l *Live) saidBy(p *record.Step) string {
	for _, a := range l.Running {
		if a.Agent == p.Agent && p.Ended.IsZero() {
			return a.Said
		}
	}
	return ""
}

// newView prepares a session for the templates. The caller adds transcripts and the contents of
// files.
func newView(s *record.Session, live *Live, now time.Time) *view {
	v := &view{
		Session: s, Live: live, Now: now, How: howDecided(s), Why: explainOutcome(s), Facts: factsOf(s), Story: storyOf(s, now), Compare: compareOf(s),
		Judged: judgedOf(s), Data: dataOf(s), Cost: costOf(s), Glossary: glossary,
	}
	end := now
	if !s.Running() {
		end = s.Ended()
	}
	if began := s.Began(); !began.IsZero() && end.After(began) {
		v.Elapsed = cli.Clock(end.Sub(began))
	}
	if live != nil {
		v.Activity = live.Running
	}
	for i, a := range s.Agents {
		v.Board = append(v.Board, newRow(s, a, i, v.Activity, now))
	}
	for _, p := range s.Steps {
		one := stepView{Step: p, ID: stepID(p), Words: actionWords(p), Path: p.Dir + "transcript.jsonl", Class: stepClass(s, p)}
		if !p.Started.IsZero() {
			one.Took = formatDuration(stepEnd(p, now).Sub(p.Started))
		}
		if live != nil {
			one.Source = live.Base + "/steps/" + p.Agent + "/" + strconv.Itoa(p.Number)
			one.Said = live.saidBy(p)
		}
		v.Steps = append(v.Steps, one)
	}
	return v
}

// HasFailed reports whether an agent has failed.
func (v *view) HasFailed() bool {
	return slices.ContainsFunc(v.Agents, func(a *record.Agent) bool { return a.Error != nil })
}

// CanRetry reports whether the session ended without a decision that stands and can continue.
func (v *view) CanRetry() bool {
	return v.Undecided() || v.State.Status == string(coordination.FailedAll) || v.State.Status == string(coordination.Cancelled)
}

func stepClass(s *record.Session, p *record.Step) string {
	for i, a := range s.Agents {
		if a.ID == p.Agent {
			return colorClass(i)
		}
	}
	return ""
}

func howDecided(s *record.Session) string {
	st := s.State
	switch {
	case s.Running() && st.Parked != nil:
		return "parked"
	case s.Running() && st.Paused:
		return "paused"
	case s.Running():
		return "running"
	case st.Winner == "":
		return st.Status
	case st.Status == string(coordination.Presented):
		return "presented"
	case st.DecidedBy == coordination.ByAgreement:
		return st.Status + " by equal answers"
	}
	by := ""
	if st.DecidedBy == coordination.ByQuorum || st.DecidedBy == coordination.ByChecks {
		by = " by " + string(st.DecidedBy)
	}
	return st.Status + by + ", " + strconv.Itoa(st.Votes[st.Winner]) + " of " + cli.Plural(countActive(s), "vote")
}

// Undecided reports whether the session ended with too little support for its best answer.
func (v *view) Undecided() bool { return v.State.Status == string(coordination.Undecided) }

// newRow has no winner in an undecided session, although its state names the best answer.
func newRow(s *record.Session, a *record.Agent, i int, doing []cli.Activity, now time.Time) row {
	r := row{Agent: a, Class: colorClass(i), Winner: s.State.Winner == a.ID && !s.Running() && s.State.Status != string(coordination.Undecided)}
	for _, p := range a.Steps {
		if p.Vote != nil && p.Vote.Stands && a.Error == nil {
			r.Vote = p
		}
	}
	switch {
	case a.Error != nil:
		r.State = "failed"
	case a.Absent:
		r.State = "not joined yet"
		if !s.Running() {
			r.State = "never joined"
		}
	case a.Running:
		r.State = "at work"
		if a.Purpose == coordination.Evaluation {
			r.State = "its answer is evaluated"
		}
	default:
		r.State = a.Status
	}
	for _, d := range doing {
		if d.Agent == a.ID {
			r.Doing = d.Timed(now)
		}
	}
	return r
}

// functions are the functions that the templates call.
var functions = template.FuncMap{
	"stamp": timeElement, "linked": linkLabels, "money": formatPrice, "tokens": formatTokens, "clean": cleanText, "line": cleanLine, "brief": briefLine,
	"clock": cli.Clock, "price": priceOf, "size": text.Size, "count": cli.Count, "seconds": formatDuration, "slug": attributeID, "plural": cli.Plural,
	"add":    func(a, b int) int { return a + b },
	"fresh":  func(u llm.Usage) int64 { return max(0, u.InputTokens-u.CachedInputTokens) },
	"number": func(n int) string { return fmt.Sprintf("%03d", n) },
	"stepID": stepID,
	"path":   func(p *record.Step, f artifact.File) string { return p.Dir + "workspace/" + cleanLine(f.Path) },
}

// term is an entry of the glossary.
type term struct{ Word, Meaning string }

var glossary = []term{
	{"session", "one question taken to a decision by a team"},
	{"agent", "a member of the team; the others know it only by its number"},
	{"step", "one run of an agent, which ends in one action: an answer, a vote or a stop"},
	{"label", "the anonymous name of an answer: agent1.2 is the second answer of the agent with number 1"},
	{"round", "the steps that were started together"},
	{"vote", "an agent's choice of one answer, its own included"},
	{"stale", "said of a vote whose agent had not seen some agent's newest answer; it no longer counts, and the agent votes again"},
	{"consensus", "every active agent is done, no vote is stale, and one answer has more than half of the votes"},
	{"update", "an answer or a message that reached an agent while it worked"},
	{"force", "a decision taken because time, money or steps ran out, or because a person asked for it"},
}

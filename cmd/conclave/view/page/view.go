package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/eval"
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
	Home     string  // list to which a standalone page belongs; empty without one
	Final    *answer // nil without one
	How      string  // the decision was found
	Model    string  // model of the final answer's author; empty if it is unknown
	Wait     wait    // of a running session
	Change   *change // change of the final answer; nil without a base
	Tally    tally
	Why      []string
	Sides    []side
	Facts    []fact
	Slowest  string
	Board    []row
	Story    story
	Compare  compare
	Judged   judged
	Data     dataTable
	Answers  []answer
	Steps    []stepView
	Cost     cost
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
	Spent  costRow
}

// stepView is a step with its transcript.
type stepView struct {
	*record.Step
	ID, Class, Words, Took string
	Source                 string // where a live page loads the transcript from
	Path                   string // path of the transcript
	Entries                []entry
	LeftOut                bool          // the transcript is left out for want of room
	Cut                    bool          // ended by the decision of the others
	Said                   string        // the end of the reply under way
	Drawn                  template.HTML // HTML of an earlier drawing
}

// Live is the state of a page that a server keeps up to date.
type Live struct {
	Base     string   // path of the page, such as /sessions/s1
	Token    string   // against forged requests; empty for a page without controls
	Temporal string   // address of the workflow in Temporal's page; empty if it is unknown
	Since    string   // the version from which the reader follows the page
	Target   string   // directory to which the change can be applied from here; empty without one
	Teams    []string // teams that the reader may ask, the default one first
	Beside   bool     // there are addresses of the newer and the older run
	Notice   string   // the outcome of the reader's last request
	Failed   bool     // whether that request failed
	Running  []cli.Activity

	// Command returns a command line for a terminal; nil for a directory.
	Command func(command string, args ...string) string
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
		Session: s, Live: live, Now: now, How: howDecided(s), Tally: tallyOf(s), Why: explainOutcome(s), Sides: sidesOf(s), Facts: factsOf(s), Slowest: slowestStep(s),
		Story: storyOf(s, now), Compare: compareOf(s), Judged: judgedOf(s), Data: dataOf(s), Cost: costOf(s),
	}
	if s.Running() {
		v.Why, v.Sides = nil, nil
	}
	if f := s.Final(); f != nil && s.Agent(f.Agent) != nil {
		v.Model = s.Agent(f.Agent).Model
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
	v.Wait = v.waitNow()
	var spent []llm.Usage
	for _, a := range s.Agents {
		spent = append(spent, a.Cost)
	}
	for i, a := range s.Agents {
		v.Board = append(v.Board, newRow(s, a, i, v.Activity, now))
		v.Board[i].Spent = newCostRow(a.ID, "", colorClass(i), a.Cost, tokenScale(spent))
	}
	for _, p := range s.Steps {
		one := stepView{Step: p, ID: stepID(p), Words: actionWords(s, p), Path: p.Dir + "transcript.jsonl", Class: agentClass(s, p.Agent), Cut: isCut(s, p)}
		if !p.Started.IsZero() {
			one.Took = formatDuration(stepEnd(p, end).Sub(p.Started))
		}
		if live != nil {
			one.Source = live.Base + "/steps/" + p.Agent + "/" + strconv.Itoa(p.Number)
			one.Said = live.saidBy(p)
		}
		v.Steps = append(v.Steps, one)
	}
	return v
}

// Frame returns the frame of the page.
func (v *view) Frame() frame {
	f := frame{
		Live: v.Live, Home: v.Home, Title: cmp.Or(briefLine(v.Query, 60), "(no question)"), Kind: "session", ID: cleanLine(v.ID), Status: v.State.Status, Word: v.State.Status, Keys: true,
		Tabs: []tab{{"decision", "Decision"}, {"story", "Story"}, {"why", "Why"}, {"board", "Agents"}, {"answers", "Answers"}, {"steps", "Steps"}, {"cost", "Cost"}},
	}
	if v.Running() && len(v.Facts) == 0 {
		f.Tabs = slices.Delete(f.Tabs, 2, 3)
	}
	switch {
	case v.Running():
		f.Status, f.Word = v.Wait.Class, v.Wait.Class
	case v.Final != nil:
		f.Said = v.Final.Label + " by " + v.Final.Agent
	}
	return f
}

// Many reports whether the team is so large that the page begins with its details folded.
func (v *view) Many() bool { return len(v.Agents) > manyAgents }

// manyAgents is the number of agents above which lanes are lower, and details folded.
const manyAgents = 8

// HasFailed reports whether an agent has failed.
func (v *view) HasFailed() bool {
	return slices.ContainsFunc(v.Agents, func(a *record.Agent) bool { return a.Error != nil })
}

// CanRetry reports whether the session ended without a decision that stands and can continue.
func (v *view) CanRetry() bool {
	return v.Undecided() || v.State.Status == string(coordination.FailedAll) || v.State.Status == string(coordination.Cancelled)
}

func howDecided(s *record.Session) string {
	st := s.State
	switch {
	case s.Running() && st.Parked != nil:
		return "parked"
	case s.Running() && st.Paused:
		return "paused"
	case s.Running() && len(st.Questions) > 0:
		return "waiting"
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
	switch w := s.Winner(); {
	case st.DecidedBy == coordination.ByQuorum:
		by = " by quorum"
	case st.DecidedBy == coordination.ByChecks && w != nil:
		return st.Status + " by checks, " + checksWords(w) + " passed"
	case st.DecidedBy == coordination.BySkill:
		by = " by skill"
	}
	return st.Status + by + ", " + strconv.Itoa(st.Votes[st.Winner]) + " of " + cli.Plural(countActive(s), "vote")
}

// Undecided reports whether the session ended with too little support for its best answer.
func (v *view) Undecided() bool { return v.State.Status == string(coordination.Undecided) }

func newRow(s *record.Session, a *record.Agent, i int, doing []cli.Activity, now time.Time) row {
	r := row{Agent: a, Class: colorClass(i), Winner: hasWon(s, a.ID)}
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
	case s.State.CutOff(a.ID) != "":
		r.State = s.State.CutOff(a.ID)
	default:
		r.State = strings.ReplaceAll(a.Status, "_", " ")
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
	"ago":    agoElement,
	"share":  cssPercent,
	"spread": func(ci eval.Interval) float64 { return ci[1] - ci[0] },
	"fresh":  func(u llm.Usage) int64 { return max(0, u.InputTokens-u.CachedInputTokens) },
	"number": func(n int) string { return fmt.Sprintf("%03d", n) },
	"stepID": stepID,
	"path":   func(p *record.Step, f artifact.File) string { return p.Dir + "workspace/" + cleanLine(f.Path) },
}

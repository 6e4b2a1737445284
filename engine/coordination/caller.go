// Rules 98 to 102 and 112 to 118: the caller's tools, and questions to people.

package coordination

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/engine/llm"
)

// caller holds the questions of the session to its caller.
type caller struct {
	Called   []callsOf `json:"called,omitempty"`  // the calls of the caller's tools
	Calling  bool      `json:"calling,omitempty"` // the last AskCaller has not ended
	Gone     bool      `json:"gone,omitempty"`    // the caller has not returned in time
	Reported llm.Usage `json:"reported,omitzero"` // the cost when the caller was last asked

	Asked   int     `json:"asked,omitempty"`   // questions of agents so far, without approvals
	Closed  []Reply `json:"closed,omitempty"`  // the newest questions that are closed, and how
	Replies []Reply `json:"replies,omitempty"` // replies that the driver has not taken
}

// defaultCallerSeconds is the default of client_tools_timeout_seconds.
const defaultCallerSeconds = 3600

// callsOf is the number of calls that a launch has made; their IDs are numbered from 1.
type callsOf struct {
	Launch LaunchID `json:"launch"`
	Calls  int      `json:"calls"`
}

// awaitedCalls returns the calls without a result, in the order of the anonymous numbers.
func (r *roster) awaitedCalls() []Call {
	var calls []Call
	for _, a := range r.byNumber() {
		if a.Run != nil {
			calls = append(calls, a.Run.Awaits...)
		}
	}
	return calls
}

// OpenCalls returns the calls of the caller's tools without a result, in the order of the anonymous numbers,
// with only one of several equal calls.
func (r *roster) OpenCalls() []Call { return r.openCalls(func(c Call) bool { return c.Ask == nil }) }

// OpenQuestions returns the questions to people that wait for a reply, likewise.
func (r *roster) OpenQuestions() []Call {
	return r.openCalls(func(c Call) bool { return c.Ask != nil })
}

func (r *roster) openCalls(kind func(Call) bool) []Call {
	var open []Call
	for _, c := range r.awaitedCalls() {
		if kind(c) && !slices.ContainsFunc(open, func(o Call) bool { return o.Digest == c.Digest }) {
			open = append(open, c)
		}
	}
	return open
}

// Answered returns a result for every open call that e answers, including calls equal to
// those that e names. Of several results the first counts.
func (r *roster) Answered(e ToolResults) []ToolResult {
	var answered []ToolResult
	calls := r.awaitedCalls()
	for _, c := range calls {
		first := slices.IndexFunc(e.Results, func(result ToolResult) bool {
			return slices.ContainsFunc(calls, func(o Call) bool { return o.ID == result.ID && (o.ID == c.ID || o.Digest == c.Digest) })
		})
		if first >= 0 && c.Ask == nil {
			answered = append(answered, ToolResult{ID: c.ID, Content: e.Results[first].Content})
		}
	}
	return answered
}

func (r *roster) isOpenCall(id string) bool {
	return slices.ContainsFunc(r.awaitedCalls(), func(c Call) bool { return c.ID == id })
}

// owesResults reports whether a step that waited when the session ended has yet to wait again.
func (r *roster) owesResults() bool {
	return slices.ContainsFunc(r.Agents, func(a *agent) bool {
		return a.Run != nil && a.Run.Launch.Owed || a.Rest != nil && a.Rest.Launch.Owed
	})
}

// callID matches the ID of a call: the session's hash, the launch and the number.
var callID = regexp.MustCompile(`^c[0-9a-f]+_(l[0-9]+)_([0-9]+)$`)

func parseCall(id string) (launch LaunchID, number int, ok bool) {
	found := callID.FindStringSubmatch(id)
	if found == nil {
		return "", 0, false
	}
	number, err := strconv.Atoi(found[2])
	return LaunchID(found[1]), number, err == nil && number > 0
}

func (c *caller) countCall(id string) {
	launch, number, ok := parseCall(id)
	if !ok {
		return
	}
	i := slices.IndexFunc(c.Called, func(c callsOf) bool { return c.Launch == launch })
	if i < 0 {
		c.Called = append(c.Called, callsOf{Launch: launch})
		i = len(c.Called) - 1
	}
	c.Called[i].Calls = max(c.Called[i].Calls, number)
}

func (c *caller) wasCalled(id string) bool {
	launch, number, ok := parseCall(id)
	return ok && slices.ContainsFunc(c.Called, func(c callsOf) bool { return c.Launch == launch && number <= c.Calls })
}

// ErrNotWaiting refuses the result of a call because a retried step may be about to wait for it again.
var ErrNotWaiting = errors.New("a retried step does not wait for the caller's results yet")

// refuseResults refuses results of calls that the session has not made and, while a retried step has yet to
// wait again, of calls that are not open. Otherwise it accepts repeated results, which change nothing.
func (c *caller) refuseResults(r *roster, e ToolResults) error {
	if len(e.Results) == 0 {
		return errors.New("results is empty; give a list of {id, content}")
	}
	var open []string
	for _, call := range r.OpenCalls() {
		open = append(open, call.ID)
	}
	for _, result := range e.Results {
		switch {
		case c.wasCalled(result.ID) && r.owesResults() && !r.isOpenCall(result.ID):
			return ErrNotWaiting
		case c.wasCalled(result.ID):
		case len(open) == 0:
			return fmt.Errorf("the session has not made the call %s, and no call waits for a result", quoteText(result.ID))
		default:
			return fmt.Errorf("the session has not made the call %s; these calls wait for a result: %s", quoteText(result.ID), strings.Join(open, ", "))
		}
	}
	return nil
}

// AwaitsCaller reports whether steps are running and all of them wait, at least one for the caller. The
// session's clock is then stopped, as it is if AwaitsPerson.
func (r *roster) AwaitsCaller() bool { return r.awaitsOthers() && len(r.OpenCalls()) > 0 }

// AwaitsPerson reports whether steps are running and all of them wait for people.
func (r *roster) AwaitsPerson() bool { return r.awaitsOthers() && len(r.OpenCalls()) == 0 }

func (r *roster) awaitsOthers() bool {
	return slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.Run.awaitsOthers() }) &&
		!slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.isWorking() && !a.Run.awaitsOthers() })
}

// awaitResults makes a step wait for the caller, for people, or both, and returns the entries for the timeline.
// The step still counts as running, so it holds back the same decisions and launches.
func (c *caller) awaitResults(r *roster, a *agent, run *Launch, e Awaiting) []Entry {
	before := r.OpenQuestions()
	a.Step = max(a.Step, e.Step)
	run.Answered, run.Owed = false, false
	a.Run = &runningStep{Launch: *run, Token: e.Token, Awaits: slices.Clone(e.Calls)}
	var names []string
	var entries []Entry
	for i, call := range a.Run.Awaits {
		if call.Ask != nil {
			a.Run.Awaits[i].Ask = shallowCopy(call.Ask)
			entries = append(entries, c.ask(r, a, call, before, e.Step)...)
			continue
		}
		names = append(names, call.Name)
		c.countCall(call.ID)
	}
	if len(names) > 0 {
		entries = append(entries, Entry{Kind: EntrySuspended, Agent: a.ID, Step: e.Step, Text: a.ID + " waits for the caller's tools: " + truncate(strings.Join(names, ", "))})
	}
	return entries
}

// ask applies rules 113 and 114 to a new question, and rule 117 to one that is asked again. Before are the
// questions that were open.
func (c *caller) ask(r *roster, a *agent, call Call, before []Call, step int) []Entry {
	again := slices.ContainsFunc(c.Closed, func(closed Reply) bool { return closed.Question == call.ID })
	c.Closed = slices.DeleteFunc(c.Closed, func(closed Reply) bool { return closed.Question == call.ID })
	entry := Entry{Kind: entryAsked, Agent: a.ID, Step: step, Question: call.ID, Reason: truncate(call.Ask.Text), Text: a.ID + " asks a person"}
	switch {
	case call.Ask.Kind == AskUnknown:
		entry.Kind, entry.Text = EntryUnknown, a.ID+" asks what to do about a call of "+call.Name+" that may have happened"
	case call.Ask.Kind == AskApproval:
		entry.Text = a.ID + " asks whether it may call " + call.Name
	case again, slices.ContainsFunc(before, func(o Call) bool { return o.Digest == call.Digest }):
	case c.Asked >= cmp.Or(r.Config.MaxQuestions, defaultMaxQuestions):
		limit := fmt.Sprintf("not asked: the session has asked %d questions, its limit (orchestrator.max_questions); decide yourself", c.Asked)
		return append([]Entry{entry}, c.close(r, call, Reply{Question: call.ID, Text: limit, By: byNobody})...)
	default:
		c.Asked++
	}
	return []Entry{entry}
}

// Who has closed a question, if no person has.
const (
	byNobody = "nobody" // in time, or within the limit
	byEnd    = "the end of the session"
)

// Defaults of the questions.
const (
	defaultMaxQuestions = 3
	defaultAskSeconds   = 86400
	keptClosed          = 50 // closed questions that the state keeps
)

// close answers an open question, and all that are equal to it. It returns the entries for the timeline.
func (c *caller) close(r *roster, question Call, reply Reply) []Entry {
	entries := []Entry{reply.entry(question)}
	for _, a := range r.Agents {
		if !a.Run.awaitsOthers() {
			continue
		}
		waited := len(a.Run.Awaits)
		a.Run.Awaits = slices.DeleteFunc(a.Run.Awaits, func(call Call) bool {
			if call.Ask == nil || call.Digest != question.Digest {
				return false
			}
			reply.Question = call.ID
			c.Replies = append(c.Replies, reply)
			c.keepClosed(reply)
			return true
		})
		if len(a.Run.Awaits) == 0 && waited > 0 {
			entries = append(entries, a.goOn("a reply"))
		}
	}
	return entries
}

func (c *caller) keepClosed(reply Reply) {
	c.Closed = append(c.Closed, reply)
	c.Closed = slices.Clone(c.Closed[max(0, len(c.Closed)-keptClosed):])
}

// goOn resumes a step that has all that it waited for.
func (a *agent) goOn(with string) Entry {
	a.endWait().Launch.Answered = true
	return Entry{Kind: EntryResumed, Agent: a.ID, Text: a.ID + " goes on with " + with}
}

// withdraw closes the open questions of an agent that no longer waits.
func (c *caller) withdraw(a *agent) (entries []Entry) {
	for _, call := range a.Run.Awaits {
		if call.Ask != nil {
			reply := Reply{Question: call.ID, By: byEnd}
			c.keepClosed(reply)
			entries = append(entries, reply.entry(call))
		}
	}
	return entries
}

// TakeReplies returns the replies of people that are not taken yet, for the driver to put on record.
func (c *caller) TakeReplies() []Reply {
	taken := c.Replies
	c.Replies = nil
	return taken
}

// refuseReplied applies rule 116.
func (c *caller) refuseReplied(r *roster, e Replied) error {
	at := slices.IndexFunc(r.awaitedCalls(), func(o Call) bool { return o.Ask != nil && o.ID == e.Question })
	if at < 0 {
		return c.refuseClosed(r, e.Question)
	}
	asks := r.awaitedCalls()[at].Ask
	approve := e.Allow != nil
	if !approve && e.Text == "" && e.Option == 0 && asks.Kind == AskApproval {
		return errors.New("allow is missing: true or false")
	}
	switch {
	case approve && (e.Text != "" || e.Option != 0), !approve && e.Text != "" && e.Option != 0:
		return errors.New("give one of a text, an option, or allow")
	case approve && asks.Kind == AskQuestion:
		return fmt.Errorf("%s is a question, not an approval: give a text or an option", e.Question)
	case !approve && asks.Kind == AskApproval:
		return fmt.Errorf("%s asks for an approval: approve or deny it", e.Question)
	case !approve && e.Option == 0 && asks.Kind == AskUnknown:
		return fmt.Errorf("%s takes one of its options: 1 runs the call, 2 skips it, 3 lets the agent look", e.Question)
	case e.Option < 0, e.Option > len(asks.Options):
		return fmt.Errorf("%s has %d options, and this is option %d", e.Question, len(asks.Options), e.Option)
	case !approve && e.Option == 0 && strings.TrimSpace(e.Text) == "":
		return errors.New("the reply is empty; give a text or an option")
	case len(e.Text)+len(e.Note) > MaxText:
		return fmt.Errorf("the reply has %d bytes, at most %d are accepted", len(e.Text)+len(e.Note), MaxText)
	}
	return nil
}

// refuseClosed returns the end of a question that is not open.
func (c *caller) refuseClosed(r *roster, id string) error {
	if at := slices.IndexFunc(c.Closed, func(o Reply) bool { return o.Question == id }); at >= 0 {
		return fmt.Errorf("the question %s is closed: %s", id, c.Closed[at])
	}
	var open []string
	for _, o := range r.OpenQuestions() {
		open = append(open, o.ID)
	}
	if len(open) == 0 {
		return fmt.Errorf("the session has no question %s, and none is open", quoteText(id))
	}
	return fmt.Errorf("the session has no open question %s; it has: %s", quoteText(id), strings.Join(open, ", "))
}

// takeReplied applies a reply that is not refused.
func (c *caller) takeReplied(r *roster, e Replied) []Entry {
	calls := r.awaitedCalls()
	question := calls[slices.IndexFunc(calls, func(o Call) bool { return o.Ask != nil && o.ID == e.Question })]
	reply := Reply{Allow: e.Allow, Text: strings.ToValidUTF8(cmp.Or(e.Text, e.Note), "\uFFFD"), By: truncate(cmp.Or(e.By, "a person"))}
	if e.Option > 0 {
		reply.Text = question.Ask.Options[e.Option-1]
	}
	if question.Ask.Kind == AskUnknown && e.Option > 0 {
		run := e.Option == 1
		reply.Allow, reply.Look = &run, e.Option == 3
	}
	return c.close(r, question, reply)
}

// lapse applies rule 115: nobody has answered a question in time.
func (c *caller) lapse(r *roster, e Lapsed) []Entry {
	var entries []Entry
	for _, a := range r.agentsWhere(func(a *agent) bool { return a.Run.awaitsOthers() }) {
		at := slices.IndexFunc(a.Run.Awaits, func(o Call) bool { return o.Ask != nil && o.ID == e.Question })
		if at < 0 || a.Run.Awaits[at].Ask.Overdue {
			continue
		}
		question := a.Run.Awaits[at]
		if !r.Config.DenyLate {
			question.Ask.Overdue = true
			return []Entry{{Kind: EntryWaiting, Agent: a.ID, Question: e.Question, Text: "nobody has replied to " + a.ID + " in time: the session is parked"}}
		}
		reply := Reply{Text: "nobody answered in time; decide yourself", By: byNobody}
		if question.Ask.Kind != AskQuestion {
			reply.Allow, reply.Text = new(bool), "nobody answered in time"
		}
		entries = append(entries, c.close(r, question, reply)...)
	}
	if len(entries) == 0 {
		entries = []Entry{ignoredEntry("the end of a question's time ignored: it is not open")}
	}
	return entries
}

// overdue returns the first question that nobody has answered in time, or nil.
func (r *roster) overdue() *Call {
	for _, call := range r.OpenQuestions() {
		if call.Ask.Overdue {
			return &call
		}
	}
	return nil
}

// stampQuestions sets when the newest questions were asked.
func (r *roster) stampQuestions(now time.Time) {
	for _, a := range r.Agents {
		if a.Run == nil {
			continue
		}
		for _, call := range a.Run.Awaits {
			if call.Ask != nil && call.Ask.Since.IsZero() {
				call.Ask.Since = now
			}
		}
	}
}

// NextLapse returns the open question whose time is over first, and when; "" without an open question.
func (r *roster) NextLapse() (question string, at time.Time) {
	for _, call := range r.OpenQuestions() {
		if until := r.lapseOf(call.Ask); !call.Ask.Overdue && (question == "" || until.Before(at)) {
			question, at = call.ID, until
		}
	}
	return question, at
}

func (r *roster) lapseOf(a *Ask) time.Time {
	return a.Since.Add(time.Duration(cmp.Or(r.Config.AskSeconds, defaultAskSeconds)) * time.Second)
}

// entry returns the line of the timeline for a reply.
func (r Reply) entry(question Call) Entry {
	e := Entry{Kind: EntryReplied, Question: question.ID, Reason: truncate(r.Text), Text: r.By + " replied"}
	switch {
	case r.By == byEnd:
		e.Kind, e.Reason, e.Text = EntryWithdrawn, "", "the question is withdrawn"
	case r.Look:
		e.Text = r.By + " lets the agent look"
	case r.Allow != nil && *r.Allow:
		e.Kind, e.Text = EntryApproved, r.By+" approved the call of "+question.Name
	case r.Allow != nil:
		e.Kind, e.Text = EntryDenied, r.By+" denied the call of "+question.Name
	}
	return e
}

// String describes the decision and names the person.
func (r Reply) String() string {
	switch {
	case r.By == byEnd:
		return "withdrawn by " + byEnd
	case r.Look:
		return "the agent looks, by " + r.By
	case r.Allow != nil && *r.Allow:
		return "approved by " + r.By
	case r.Allow != nil:
		return "denied by " + r.By
	}
	return quoteText(r.Text) + ", by " + r.By
}

// takeResults applies the results of the caller, and returns an entry for each step whose calls all have results;
// it is resumed like a suspended one. A caller that sends new results has seen the cost so far. One that
// only repeats results may have lost the reply, so the cost since then is still to be reported.
func (c *caller) takeResults(r *roster, e ToolResults, cost llm.Usage) (entries []Entry) {
	answered := r.Answered(e)
	if len(answered) > 0 && r.AwaitsCaller() {
		c.Reported = cost
	}
	for _, a := range r.agentsWhere(func(a *agent) bool { return a.Run.awaitsOthers() }) {
		a.Run.Awaits = slices.DeleteFunc(a.Run.Awaits, func(c Call) bool {
			return slices.ContainsFunc(answered, func(r ToolResult) bool { return r.ID == c.ID })
		})
		if len(a.Run.Awaits) == 0 {
			entries = append(entries, a.goOn("the results of the caller's tools"))
		}
	}
	return entries
}

// endWait makes a step that waits one to resume.
func (a *agent) endWait() *resumableStep {
	a.Run, a.Rest = nil, &resumableStep{Launch: a.Run.Launch, Token: a.Run.Token}
	return a.Rest
}

// askCaller limits the time of the caller, once for each wait.
func (c *caller) askCaller(waits bool, seconds int) []Command {
	began := waits && !c.Calling
	c.Calling = waits
	if !began {
		return nil
	}
	return []Command{AskCaller{Seconds: cmp.Or(seconds, defaultCallerSeconds)}}
}

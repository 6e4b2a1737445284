//go:build simulate

package stagetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

type sessionResult = sessionflow.Result

// settings are what differs between runs. The first value is the usual one.
var settings = map[string][]string{
	"agents":            {"3", "2", "3", "4", "1", "5"},
	"workers":           {"1", "2", "3", "2"},
	"heartbeat_timeout": {"1m", "20s", "30s"},
}

// teamSettings are keys of a team file. Most are usual in most runs.
var teamSettings = map[string][]string{
	"answer_schema":                                 {"null", "null", verdictSchema},
	"orchestrator.pacing":                           {"rounds", "continuous"},
	"orchestrator.update_mode":                      {"inject", "restart"},
	"orchestrator.on_split":                         {"revote", "plurality", "fail"},
	"orchestrator.max_steps_per_agent":              {"12", "2", "4"},
	"orchestrator.max_rounds":                       {"null", "2", "3", "null"},
	"orchestrator.on_agent_failure":                 {"continue", "park", "fail"},
	"orchestrator.min_active_agents":                {"1", "2"},
	"orchestrator.decide_when":                      {"all", "quorum"},
	"orchestrator.quorum_grace_seconds":             {"30", "0"},
	"orchestrator.team_size":                        {`{"start": null}`, `{"start": 1}`, `{"start": 2}`},
	"orchestrator.early_agreement":                  {"false", "true"},
	"orchestrator.peer_visibility":                  {"all", "all", "none"},
	"orchestrator.disable_injection":                {"false", "true"},
	"orchestrator.defer_peer_updates_until_restart": {"false", "true"},
	"orchestrator.fairness_lead_cap_answers":        {"2", "0", "1"},
	"orchestrator.max_new_answers_per_agent":        {"null", "1", "2"},
	"orchestrator.max_new_answers_global":           {"null", "3"},
	"orchestrator.defer_voting_until_all_answered":  {"false", "true"},
	"orchestrator.skip_voting":                      {"false", "false", "false", "true"},
	"orchestrator.final_answer_strategy":            {"winner_reuse", "winner_present", "synthesize"},
	"orchestrator.max_orchestration_restarts":       {"0", "0", "1"},
	"orchestrator.coordination_mode":                {"voting", "voting", "voting", "decomposition"},
	"orchestrator.budget":                           {`{"max_total_tokens": null}`, `{"max_total_tokens": null}`, `{"max_total_tokens": 1500}`, `{"max_cost_usd": 0.08}`},
	"orchestrator.act_when":                         {`{"min_support": null}`, `{"min_support": null}`, `{"min_support": 0.7}`},
	"orchestrator.coordination": {
		"{}", `{"orchestrator_managed_round_evaluator": true, "round_evaluator_before_checklist": true}`, `{"orchestrator_managed_round_evaluator": true, "round_evaluator_before_checklist": true, "stop_at_ceiling": true}`,
		`{"evaluation_criteria_generator": {"enabled": true}}`,
	},
	"orchestrator.max_revotes":                          {"1", "0", "2"},
	"orchestrator.agree":                                {"normalized", "exact"},
	"orchestrator.show_agreement":                       {"true", "false"},
	"orchestrator.skip_final_presentation":              {"false", "true"},
	"orchestrator.answer_novelty_requirement":           {"lenient", "strict"},
	"orchestrator.max_model_calls_per_step":             {"200", "3"},
	"orchestrator.max_midstream_injections_per_round":   {"2", "1"},
	"orchestrator.allow_solo_refinement":                {"false", "true"},
	"orchestrator.presenter_agent":                      {"null", "agent_a"},
	"orchestrator.ballot":                               {"text", "text", "checks_shown", "checks_decide"},
	"orchestrator.ask_person":                           {"false", "true", "true"},
	"orchestrator.max_questions":                        {"3", "1"},
	"orchestrator.ask_timeout_seconds":                  {"86400", "60"},
	"orchestrator.on_ask_timeout":                       {"park", "deny"},
	"orchestrator.approvals":                            {"[]", `[{"tool": "run_command", "do": "ask"}]`, `[{"tool": "run_command", "do": "ask"}]`, `[{"tool": "run_command", "do": "deny"}]`},
	"timeout_settings.orchestrator_timeout_seconds":     {"3600", "600"},
	"timeout_settings.subsequent_round_timeout_seconds": {"null", "60"},
	"timeout_settings.initial_round_timeout_seconds":    {"null", "60"},
	"timeout_settings.round_timeout_grace_seconds":      {"120", "0"},
	"timeout_settings.client_tools_timeout_seconds":     {"3600", "20"},
	"timeout_settings.outage_seconds":                   {"120", "600"},
	"timeout_settings.away_seconds":                     {"60", "20"},
}

// verdictSchema is the schema of a team's answers.
const verdictSchema = `{"type": "object", "properties": {"choice": {"enum": ["left", "right"]}, "try": {"type": "integer"}, ` +
	`"tags": {"type": "array", "items": {"type": "string"}, "x-conclave-set": true}}, "required": ["choice"]}`

// setting returns the value of a setting. The schedule decides for each of them once.
func (w *world) setting(name string) string {
	if v, set := w.settings[name]; set {
		return v
	}
	v := w.pick("setting "+name, settings[name]...)
	w.settings[name] = v
	return v
}

// agents returns the IDs of the team, in configured order.
func (w *world) agents() []string {
	var n int
	_, _ = fmt.Sscan(w.setting("agents"), &n)
	return []string{"agent_b", "agent_a", "agent_c", "agent_e", "agent_d"}[:n]
}

func (w *world) anyAgent(at string) string { return w.pick(at+", agent", w.agents()...) }

// inBase reports whether the content is one of the base.
func (w *world) inBase(root, sum string) bool {
	if _, promoted := w.bucket.objects["pipelines/p/blobs/sha256/"+sum]; promoted && strings.HasPrefix(root, "sessions/p-") {
		return true // the base of a pipeline's team is the run's files
	}
	return slices.Contains([]string{artifact.SumOf([]byte("a\n")), artifact.SumOf([]byte("nothing yet\n")), artifact.SumOf([]byte(picture))}, sum)
}

// team returns a team file. A key that its other keys do not admit is left out.
func (w *world) team() json.RawMessage {
	var chosen []string
	for _, name := range sortedKeys(teamSettings) {
		if w.fixed == nil && w.draw("is usual "+name)%3 != 0 {
			continue
		}
		if v := w.pick("setting "+name, teamSettings[name]...); v != teamSettings[name][0] {
			w.settings[name[strings.Index(name, ".")+1:]] = v
			chosen = append(chosen, name)
		}
	}
	if file := w.teamFile(chosen); w.parse(file) {
		return file
	}
	for n := 0; n < len(chosen); { // one after the other
		if w.parse(w.teamFile(chosen[:n+1])) {
			n++
			continue
		}
		delete(w.settings, chosen[n][strings.Index(chosen[n], ".")+1:])
		chosen = slices.Delete(chosen, n, n+1)
	}
	file := w.teamFile(chosen)
	w.parse(file)
	return file
}

// parse parses a team file. Workers have the last one by name.
func (w *world) parse(file json.RawMessage) bool {
	team, err := config.Parse("team", file, config.Cluster)
	if err == nil {
		w.named = map[string]config.Team{"default": team}
	}
	return err == nil
}

// teamFile writes a team file with some of the settings.
func (w *world) teamFile(names []string) json.RawMessage {
	file := map[string]any{}
	keys := map[string]map[string]json.RawMessage{"orchestrator": {}, "timeout_settings": {}}
	for _, name := range names {
		part, key, within := strings.Cut(name, ".")
		if !within {
			key = name
		}
		value := json.RawMessage(w.settings[key])
		if !json.Valid(value) {
			value, _ = json.Marshal(w.settings[key])
		}
		if !within {
			file[key] = value
			continue
		}
		keys[part][key] = value
		if strings.Contains(string(value), "evaluator") {
			keys[part]["voting_sensitivity"] = json.RawMessage(`"checklist_gated"`)
		}
	}
	var agents []map[string]any
	for _, id := range w.agents() {
		agents = append(agents, map[string]any{"id": id, "backend": map[string]any{"type": "openai", "model": "m"}})
	}
	file["agents"], file["orchestrator"], file["timeout_settings"] = agents, keys["orchestrator"], keys["timeout_settings"]
	data, _ := json.Marshal(file)
	return data
}

// play runs a session, a pipeline or a scenario to its end.
func (w *world) play() {
	w.settings = map[string]string{}
	var start func(*world)
	switch w.pick("setting kind", "session", "session", "session", "pipeline", "scenario") {
	case "session":
		start = playSession(w)
	case "pipeline":
		start = playPipeline(w)
	case "scenario":
		start = playScenario(w)
	}
	var n int
	_, _ = fmt.Sscan(w.setting("workers"), &n)
	for range n {
		w.startProcess()
	}
	start(w)
	w.run(w.isOver)
}

// playSession runs a session, whose team the workers have.
func playSession(w *world) func(*world) {
	w.root = "s"
	w.resumed = func() any { return sessionflow.Input{Resume: true} }
	w.team()
	in := sessionflow.Input{Query: "What is right?"}
	if w.pick("setting base", "none", "none", "two files") == "two files" {
		in.Base = w.upload()
	}
	if w.pick("setting images", "none", "none", "none", "one") == "one" {
		in.Images = []artifact.Picture{{Manifest: w.upload(), Path: "picture.png"}}
		w.settings["images"] = "one"
	}
	if w.pick("setting client_tools", "none", "none", "one") == "one" {
		in.ClientTools = json.RawMessage(`[{"type": "function", "function": {"name": "ask", "parameters": {"type": "object", "properties": {}}}}]`)
	}
	return func(w *world) { w.temporal.begin(sessionflow.Type, w.root, in, "", nil, nil) }
}

// picture is a PNG of one pixel.
const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82"

// upload stores a base, and returns its reference.
func (w *world) upload() string {
	dir := filepath.Join(w.scratch, "base")
	for name, content := range map[string]string{"a.txt": "a\n", "log.txt": "nothing yet\n", "picture.png": picture} {
		err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
		if err != nil {
			w.breaks("a base is uploaded", "%v", err)
		}
	}
	done, err := snapshot.Upload{Dir: dir, Store: view{bucket: w.bucket}, Now: time.Now}.Run(context.Background())
	if err != nil {
		w.breaks("a base is uploaded", "%v", err)
	}
	return snapshot.Reference(done.Hash)
}

// isOver reports whether the workflow has ended, and all that it has left behind.
func (w *world) isOver() bool {
	if w.temporal.open(w.root) != nil {
		return false
	}
	return !slices.ContainsFunc(w.queue, func(e *event) bool { return e.result != nil && !e.proc.dead }) && w.quiet()
}

// quiet reports whether nothing but timers is left.
func (w *world) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.arrived) > 0 {
		return false
	}
	for _, p := range w.procs {
		if !p.dead && p.busy() {
			return false
		}
	}
	return !slices.ContainsFunc(w.queue, func(e *event) bool { return strings.HasSuffix(e.at, "goes on") })
}

// held is the part of a run's state that says what it waits for.
type held struct {
	Paused bool                `json:"paused"`
	Parked *string             `json:"parked"`
	Calls  []coordination.Call `json:"calls"`

	Questions []coordination.Question `json:"questions"`
}

// view returns what a run waits for.
func (w *world) view(f *flow) (state held, ok bool) {
	ok = w.query(f, &state)
	return state, ok
}

// query reads the state of a run.
func (w *world) query(f *flow, into any) bool {
	root := f
	if f.parent != nil {
		root = f.parent
	}
	value, err := root.env.QueryWorkflowByID(f.id, workflows.StateQuery)
	return err == nil && value.Get(into) == nil
}

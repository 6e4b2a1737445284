package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// rule is an alert.
type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func readRules(t *testing.T) []rule {
	t.Helper()
	data, err := os.ReadFile("helm/conclave/alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct{ Rules []rule }
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

// panel is a panel of the dashboard.
type panel struct {
	Type, Title string
	ID          int
	Targets     []struct{ Expr string }
}

func readPanels(t *testing.T) []panel {
	t.Helper()
	data, err := os.ReadFile("grafana/conclave.json")
	require.NoError(t, err)
	var dashboard struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(data, &dashboard))
	return dashboard.Panels
}

// metric matches the name of a metric of conclave or the Temporal SDK.
var metric = regexp.MustCompile(`\b(conclave|temporal)_[a-z0-9_]+`)

// Every metric of an alert or a panel is documented, and every alert is tested.
func TestMetrics_areDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	documented := map[string]bool{}
	for _, name := range metric.FindAllString(string(text), -1) {
		documented[name] = true
	}
	require.True(t, documented["conclave_sessions_ended_total"])
	check := func(where, expr string) {
		t.Helper()
		names := metric.FindAllString(expr, -1)
		for _, name := range names {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if family := strings.TrimSuffix(name, suffix); documented[family] {
					name = family
				}
			}
			require.True(t, documented[name], "%s: %s", where, name)
		}
	}
	tested, err := os.ReadFile("prometheus/alerts_test.yaml")
	require.NoError(t, err)
	for _, r := range readRules(t) {
		check(r.Alert, r.Expr)
		require.Equal(t, 2, strings.Count(string(tested), "alertname: "+r.Alert), "%s: that it fires, and that it does not", r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
	}
	ids := map[int]bool{}
	for _, p := range readPanels(t) {
		require.False(t, ids[p.ID], "%s: the ID %d is used twice", p.Title, p.ID)
		ids[p.ID] = true
		require.Equal(t, p.Type != "row", len(p.Targets) > 0, p.Title)
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
}

// promtool accepts the configurations, parses the queries of the panels, and fires every alert for its cause.
func TestPrometheus_acceptsTheFiles(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool; Debian's package prometheus has it")
	}
	run := func(args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("check", "rules", "helm/conclave/alerts.yaml")
	run("test", "rules", "prometheus/alerts_test.yaml")
	run("check", "config", "prometheus/prometheus.yml")
	run("check", "config", "prometheus/compose.yml")
	var rules strings.Builder
	rules.WriteString("groups:\n- name: panels\n  rules:\n")
	for _, p := range readPanels(t) {
		for _, target := range p.Targets {
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
			rules.WriteString("  - {record: panel, expr: " + string(quoted(t, expr)) + ", labels: {panel: " + string(quoted(t, p.Title+target.Expr)) + "}}\n")
		}
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	run("check", "rules", file)
}

func quoted(t *testing.T, s string) []byte {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	return data
}

package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.yaml.in/yaml/v4"

	"conclave/worker"
	"conclave/workflows"
)

const chart = "helm/conclave"

func readValues(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(data, &values))
	return values
}

func TestHelm_workerConfiguration(t *testing.T) {
	t.Parallel()
	data, err := yaml.Marshal(readValues(t)["workerConfig"])
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	s, err := worker.LoadSettings(file)
	require.NoError(t, err)
	require.Contains(t, s.Teams, "default")
	require.Equal(t, "0.0.0.0:9464", s.MetricsAddress, "the probes ask this port")
}

// The schema knows every value, with its type, and no other.
func TestHelm_schema(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	require.NoError(t, err)
	schema := decodeSchema(t, data)
	values := readValues(t)
	require.NoError(t, schema.Validate(values))
	for _, name := range keysOf(values, "") {
		if !regexp.MustCompile(`(workerConfig|resources|seccompProfile)\.`).MatchString(name) { // Kubernetes and the worker know those
			require.Error(t, schema.Validate(misspelt(t, name)), name)
		}
	}
	for name, wrong := range map[string]any{"worker.replicas": "two", "serve.enabled": "yes", "image.pullPolicy": "Sometimes", "networkPolicy.egressPorts": []any{70000}, "workerConfig.metrics_address": ":9999"} {
		require.Error(t, schema.Validate(with(t, name, wrong)), name)
	}
}

// keysOf returns the paths of the values' keys.
func keysOf(values map[string]any, path string) (all []string) {
	for key, value := range values {
		all = append(all, path+key)
		if level, ok := value.(map[string]any); ok {
			all = append(all, keysOf(level, path+key+".")...)
		}
	}
	return all
}

// with returns the values with another one at a path.
func with(t *testing.T, path string, value any) map[string]any {
	t.Helper()
	values := readValues(t)
	level, keys := values, strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		level = level[key].(map[string]any)
	}
	level[keys[len(keys)-1]] = value
	return values
}

func misspelt(t *testing.T, path string) map[string]any { return with(t, path+"x", "") }

func decodeSchema(t *testing.T, data []byte) *jsonschema.Resolved {
	t.Helper()
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(data, &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	return resolved
}

// Every value that a template uses has a default.
func TestHelm_templatesUseDefinedValues(t *testing.T) {
	t.Parallel()
	values := readValues(t)
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	require.NoError(t, err)
	used := regexp.MustCompile(`\.Values((?:\.\w+)+)`)
	count := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range used.FindAllStringSubmatch(string(data), -1) {
			var at any = values
			for _, key := range strings.Split(m[1][1:], ".") {
				level, ok := at.(map[string]any)
				require.True(t, ok, "%s: .Values%s", file, m[1])
				require.Contains(t, level, key, "%s: .Values%s", file, m[1])
				at = level[key]
			}
			count++
		}
	}
	require.Greater(t, count, 30)
}

// Helm itself lints the chart, and renders it with everything switched on.
func TestHelm_rendered(t *testing.T) {
	t.Parallel()
	helm, validator := checker(t, "HELM_BIN"), checker(t, "KUBECTL_VALIDATE_BIN")
	required := slices.Clip([]string{"--set", "temporal.address=temporal:7233", "--set", "bucket.name=sessions"})
	all := append(required, "--set", "temporal.tls=true,temporal.apiKeySecret.name=cloud,temporal.certificateSecret=mtls,temporal.authoritySecret=authority,bucket.endpoint=http://s3:9000,"+
		"bucket.credentialsSecret=s3,payloadKeySecret=payload,modelKeySecrets={models,mcp},autoscaling.enabled=true,monitoring.podMonitor=true,monitoring.prometheusRule=true,monitoring.labels.release=prometheus,serve.ingress.enabled=true,serve.ingress.host=teams.example.com,serve.ingress.tlsSecret=tls,worker.hostUsers=false,serve.enabled=true,serve.keysSecret=keys,serve.readOnly=true,worker.serviceAccount.annotations.role=x")
	for name, set := range map[string][]string{"required": required, "all": all} {
		said, err := exec.CommandContext(t.Context(), helm, append([]string{"lint", "--strict", chart}, set...)...).CombinedOutput()
		require.NoError(t, err, string(said))
		rendered, err := exec.CommandContext(t.Context(), helm, append([]string{"template", "release", chart, "--kube-version", "1.31.0"}, set...)...).Output()
		require.NoError(t, err)
		kinds := map[string]int{}
		for _, document := range strings.Split(string(rendered), "\n---\n") {
			var object struct{ APIVersion, Kind string }
			require.NoError(t, yaml.Unmarshal([]byte(document), &object), document)
			kinds[object.Kind]++
		}
		deployments := map[string]int{"required": 1, "all": 2}[name] // serve is one of its own
		require.Equal(t, deployments, kinds["Deployment"], name)
		require.Equal(t, deployments, kinds["NetworkPolicy"], name)
		require.Equal(t, deployments-1, kinds["Service"], name)
		require.Equal(t, deployments-1, kinds["ScaledObject"], name)
		for _, kind := range []string{"TriggerAuthentication", "Ingress", "PodMonitor", "PrometheusRule"} {
			require.Equal(t, deployments-1, kinds[kind], "%s: %s", name, kind)
		}
		require.Equal(t, 1, kinds["Job"], name)
		require.NotContains(t, string(rendered), "<no value>", name)
		requireKnownToKubernetes(t, validator, string(rendered))
	}
	said, err := exec.CommandContext(t.Context(), helm, append([]string{"template", "release", chart, "--set", "bucket.nme=x"}, required...)...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "nme")
	for missing, set := range map[string][]string{"bucket.name": nil, "serve.keysSecret": append(required, "--set", "serve.enabled=true")} {
		said, err := exec.CommandContext(t.Context(), helm, append([]string{"template", "release", chart, "--kube-version", "1.31.0"}, set...)...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(said), missing+" is missing")
	}
}

// The authority of the server's certificate is optional, with and without a certificate of the client's.
// KEDA gets the credentials of the workers.
func TestHelm_credentials(t *testing.T) {
	t.Parallel()
	helm := checker(t, "HELM_BIN")
	const (
		client    = "TEMPORAL_TLS_CLIENT_CERT_PATH, value: /etc/temporal/tls.crt"
		server    = "TEMPORAL_TLS_SERVER_CA_CERT_PATH, value: /etc/temporal-authority/ca.crt"
		reference = "authenticationRef: {name: release-temporal}"
		key       = "{parameter: apiKey, name: cloud, key: api-key}"
		pair      = "{parameter: cert, name: mtls, key: tls.crt}"
		authority = "{parameter: ca, name: own, key: ca.crt}"
	)
	for _, tt := range []struct {
		set string
		has []string
	}{
		{"temporal.tls=true", nil},
		{"temporal.authoritySecret=own", []string{server}},
		{"temporal.apiKeySecret.name=cloud", []string{reference, key}},
		{"temporal.certificateSecret=mtls", []string{client, reference, pair}},
		{"temporal.certificateSecret=mtls,temporal.authoritySecret=own", []string{client, server, reference, pair, authority}},
	} {
		rendered, err := exec.CommandContext(t.Context(), helm, "template", "release", chart, "--kube-version", "1.31.0",
			"--set", "temporal.address=temporal:7233,bucket.name=sessions,autoscaling.enabled=true,"+tt.set).CombinedOutput()
		require.NoError(t, err, string(rendered))
		for _, part := range []string{client, server, reference, key, pair, authority} {
			require.Equal(t, slices.Contains(tt.has, part), strings.Contains(string(rendered), part), "%s: %s", tt.set, part)
		}
	}
}

// requireKnownToKubernetes validates objects against the schemas of Kubernetes. KEDA's and those of the Prometheus
// operator are not among them.
func requireKnownToKubernetes(t *testing.T, program, rendered string) {
	t.Helper()
	objects := slices.DeleteFunc(strings.Split(rendered, "\n---\n"), func(object string) bool {
		return strings.Contains(object, "keda.sh/") || strings.Contains(object, "monitoring.coreos.com/")
	})
	validate := func(objects string) (string, error) {
		file := filepath.Join(t.TempDir(), "objects.yaml")
		require.NoError(t, os.WriteFile(file, []byte(objects), 0o600))
		said, err := exec.CommandContext(t.Context(), program, "--version", "1.30", file).CombinedOutput()
		return string(said), err
	}
	said, err := validate(strings.Join(objects, "\n---\n"))
	require.NoError(t, err, said)
	said, err = validate(strings.ReplaceAll(rendered, "readOnlyRootFilesystem", "readOnlyRoot"))
	require.Error(t, err)
	require.Contains(t, said, "readOnlyRoot", "it finds a field that does not exist")
}

// checker returns the program in a variable, which make charts sets.
func checker(t *testing.T, variable string) string {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Skip(variable + " is not set: make charts runs this test")
	}
	return program
}

func TestSystemd_units(t *testing.T) {
	t.Parallel()
	units := map[string][]string{
		"conclave-worker":            {"DynamicUser=yes", "Delegate=yes", "NoNewPrivileges=yes", "TimeoutStopSec=30", "WantedBy=multi-user.target"},
		"conclave-search-attributes": {"Type=oneshot", "Before=conclave-worker.service", "DynamicUser=yes", "NoNewPrivileges=yes"},
	}
	verify, err := exec.LookPath("systemd-analyze")
	dir := t.TempDir()
	var files []string
	for name, lines := range units {
		data, err := os.ReadFile("systemd/" + name + ".service")
		require.NoError(t, err)
		for _, line := range lines {
			require.Contains(t, string(data), "\n"+line+"\n")
		}
		file := filepath.Join(dir, name+".service")
		require.NoError(t, os.WriteFile(file, regexp.MustCompile(`/usr/local/bin/\S+`).ReplaceAll(data, []byte("/bin/true")), 0o600))
		files = append(files, file)
	}
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	said, err := exec.CommandContext(t.Context(), verify, append([]string{"verify"}, files...)...).CombinedOutput()
	require.NoError(t, err, string(said))
}

// Every way to deploy registers the attributes that workflows set, and clients.md shows the command.
func TestSearchAttributes_everywhere(t *testing.T) {
	t.Parallel()
	types := map[enumspb.IndexedValueType]string{enumspb.INDEXED_VALUE_TYPE_KEYWORD: "Keyword", enumspb.INDEXED_VALUE_TYPE_DOUBLE: "Double"}
	want := map[string]string{}
	for name, kind := range workflows.Attributes() {
		want[name] = types[kind]
	}
	pair := regexp.MustCompile(`--name[ =,\\\n]+(\w+)[ ,\\\n-]+type[ =,]+(\w+)`)
	for _, file := range []string{"compose.yaml", "systemd/conclave-search-attributes.service", chart + "/templates/search-attributes.yaml", "../docs/clients.md"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		got := map[string]string{}
		for _, m := range pair.FindAllStringSubmatch(string(data), -1) {
			got[m[1]] = m[2]
		}
		require.Equal(t, want, got, file)
	}
}

package worker

import (
	"log/slog"
	"reflect"
	"strings"
	"sync"

	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.yaml.in/yaml/v4"

	"conclave/worker/cluster"
)

// host is a task queue that only this process polls. A step is sent there if it needs tools that an
// earlier step left open, such as a browser.
type host struct {
	queue string
	log   *slog.Logger
	open  func(queue string) sdkworker.Worker

	mu     sync.Mutex
	worker sdkworker.Worker // nil until startPolling is called
	closed bool
}

// startPolling starts to poll the task queue and returns its name, or "" if the queue cannot be polled.
func (h *host) startPolling() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return ""
	case h.worker != nil:
		return h.queue
	}
	w := h.open(h.queue)
	if err := w.Start(); err != nil {
		h.log.Warn("the steps of a run may lose their browser: this worker cannot poll a queue of its own", "error", err)
		return ""
	}
	h.worker = w
	return h.queue
}

func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.worker != nil {
		h.worker.Stop()
	}
}

// RecognizeSettings reports whether a file is a worker configuration: it has a key of one, and no agents.
func RecognizeSettings(data []byte) bool {
	var file map[string]any
	if yaml.Unmarshal(data, &file) != nil {
		return false
	}
	recognized := false
	for field := range reflect.TypeFor[Settings]().Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		_, found := file[key]
		recognized = recognized || found
	}
	_, agents := file["agents"]
	_, agent := file["agent"]
	return recognized && !agents && !agent
}

func (c Config) deploymentOptions() sdkworker.DeploymentOptions {
	if c.Deployment == "" {
		return sdkworker.DeploymentOptions{}
	}
	return sdkworker.DeploymentOptions{
		UseVersioning:             true,
		Version:                   sdkworker.WorkerDeploymentVersion{DeploymentName: c.Deployment, BuildID: cluster.BuildID()},
		DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
	}
}

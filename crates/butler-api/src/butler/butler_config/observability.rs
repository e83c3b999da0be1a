//! Settings and status of log, metric and trace collection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Collection of logs, metrics and traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observability {
    /// What is collected from tenant clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<ObservabilityCollection>,
    /// Where it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<ObservabilityPipeline>,
}

/// What is collected from tenant clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservabilityCollection {
    /// Which collectors every cluster gets by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_enroll: Option<AutoEnroll>,
    /// Which logs are collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogCollection>,
    /// Which metrics are collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricCollection>,
}

/// Which collectors every cluster gets by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoEnroll {
    /// Vector, for logs; needs the pipeline's `logEndpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_agent: Option<bool>,
    /// Prometheus, for metrics; needs the pipeline's `metricEndpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<bool>,
    /// OpenTelemetry collector, for traces; needs the pipeline's `traceEndpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otel_collector: Option<bool>,
}

/// Which logs are collected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogCollection {
    /// What pods write to their output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_logs: Option<bool>,
    /// The system journal of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journald: Option<bool>,
    /// Kubernetes events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_events: Option<bool>,
}

/// Which metrics are collected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricCollection {
    /// Whether metrics are collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How long a cluster keeps its own metrics: `15d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
}

/// Where logs, metrics and traces are sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservabilityPipeline {
    /// Tenant cluster that runs the pipeline; it collects nothing from itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<PipelineClusterReference>,
    /// Address logs are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_endpoint: Option<String>,
    /// Address metrics are sent to, by remote write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_endpoint: Option<String>,
    /// Address traces are sent to, by OTLP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_endpoint: Option<String>,
}

/// Names the tenant cluster that runs the observability pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineClusterReference {
    /// Name of the `TenantCluster`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Namespace of the `TenantCluster`.
    #[schemars(length(min = 1))]
    pub namespace: String,
}

/// How far observability has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservabilityStatus {
    /// Whether the pipeline's cluster is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_ready: Option<bool>,
    /// Clusters that have their collectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolled_count: Option<i32>,
    /// Clusters that should have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_count: Option<i32>,
}

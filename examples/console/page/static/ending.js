// How an execution has ended, or that it runs, in words.

// ending takes the record of an execution.
export function ending(record) {
  const after = `after ${(record.duration_ms / 1000).toFixed(2)} s`;
  const why = [];
  if (record.signal) why.push(`ended by ${record.signal}`);
  if (record.oom_killed) why.push("out of memory");
  if (record.reason) why.push(record.reason);
  if (record.error) why.push(record.error);
  const detail = why.length > 0 ? ` (${why.join(", ")})` : "";
  switch (record.status) {
    case "running":
      return "Running";
    case "completed":
      return `Exit code ${record.exit_code} ${after}${detail}`;
    case "timeout":
      return `Timed out ${after}: exit code ${record.exit_code}${detail}`;
    case "cancelled":
      return `Cancelled ${after}${detail}`;
    default:
      return `Failed${detail}`;
  }
}

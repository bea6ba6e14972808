import { Gauge, type Registry } from 'prom-client';
import { processMetrics } from '#shared/api/metrics.ts';
import { version } from '#shared/api/version.ts';

/**
 * What everybody looks at first, under the names that Prometheus' client libraries share. Not their whole default set: its
 * watch over the event loop wakes the process a hundred times a second, its watch over the collector at each collection.
 */
export function processGauges(registry: Registry): readonly Gauge[] {
  const registers = [registry];
  return [
    new Gauge({
      name: 'millrace_build_info',
      help: processMetrics.millrace_build_info.help,
      labelNames: processMetrics.millrace_build_info.labels,
      registers,
      collect() {
        this.set({ version }, 1);
      },
    }),
    new Gauge({
      name: 'process_resident_memory_bytes',
      help: processMetrics.process_resident_memory_bytes.help,
      registers,
      collect() {
        this.set(process.memoryUsage.rss());
      },
    }),
    new Gauge({
      name: 'process_cpu_seconds_total',
      help: processMetrics.process_cpu_seconds_total.help,
      registers,
      collect() {
        const { user, system } = process.cpuUsage();
        this.set((user + system) / 1e6);
      },
    }),
  ];
}

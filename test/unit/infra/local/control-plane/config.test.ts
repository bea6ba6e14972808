import { homedir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadBinarySettings } from '#infra/local/control-plane/config.ts';

describe('the settings for the programs', () => {
  test('take both folders from the environment and keep the rest for the build', () => {
    const settings = loadBinarySettings({
      KUBEBUILDER_ASSETS: '/opt/assets',
      XDG_CACHE_HOME: '/var/cache/me',
      GOPROXY: 'off',
      NOTHING: undefined,
    });

    expect(settings).toEqual({
      assetsDir: '/opt/assets',
      cacheDir: '/var/cache/me/millrace',
      buildEnvironment: {
        KUBEBUILDER_ASSETS: '/opt/assets',
        XDG_CACHE_HOME: '/var/cache/me',
        GOPROXY: 'off',
      },
    });
  });

  test.each([{}, { KUBEBUILDER_ASSETS: '', XDG_CACHE_HOME: '' }, { XDG_CACHE_HOME: 'relative' }])(
    'fall back to the cache in the home folder with %o',
    (environment) => {
      const settings = loadBinarySettings(environment);

      expect(settings.assetsDir).toBeUndefined();
      expect(settings.cacheDir).toBe(join(homedir(), '.cache', 'millrace'));
    },
  );
});

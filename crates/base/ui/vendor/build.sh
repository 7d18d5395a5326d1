#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Rebuilds echarts.min.js from the versions pinned in package-lock.json.
# Only needed to change them; an ordinary build uses the committed bundle.
set -eu
cd "$(dirname "$0")"
npm ci --no-fund --no-audit
modules=node_modules
cp $modules/echarts/LICENSE licences/echarts-LICENSE
cp $modules/echarts/NOTICE licences/echarts-NOTICE
cp $modules/echarts/licenses/LICENSE-d3 licences/d3-LICENSE
cp $modules/zrender/LICENSE licences/zrender-LICENSE
cp $modules/tslib/LICENSE.txt licences/tslib-LICENSE
version=$(node -p "require('./$modules/echarts/package.json').version")

# The page carries the notices with the code they belong to.
{
    echo "/*! Apache ECharts $version, cut down to the parts in use."
    echo "Licensed under the Apache License, Version 2.0:"
    echo "https://www.apache.org/licenses/LICENSE-2.0"
    echo
    cat licences/echarts-NOTICE
    echo
    echo "It contains zrender and parts of d3, under these terms:"
    echo
    cat licences/zrender-LICENSE
    echo
    cat licences/d3-LICENSE
    echo "*/"
} >banner.txt
$modules/.bin/esbuild charts.js --bundle --minify --format=iife \
    --global-name=echarts --target=es2018 --legal-comments=none \
    --define:process.env.NODE_ENV='"production"' \
    --banner:js="$(cat banner.txt)" --outfile=echarts.min.js
rm -r banner.txt $modules
sha256sum echarts.min.js >SHA256SUMS
